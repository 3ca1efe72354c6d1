"""Options, advertised services, sockets and pool of a fake driver."""

import asyncio
import re
from contextlib import aclosing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from drahealth.fakes.cluster.api import CLAIMS, SLICES, ApiError, Kind, Object
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.control.fake_options import DriverOptions, PluginOptions, Returned
from drahealth.fakes.kubelet_plugin.slices import Owner, Pool, desired_pools, slice_object
from drahealth.proto.events import ReportSent
from drahealth.proto.health_apis import HEALTH_APIS, NODE_HEALTH, NODE_HEALTH_DRAFT, V1, V1ALPHA1, HealthApi
from drahealth.proto.services import PREPARE
from drahealth.proto.sockets import SocketInUse
from drahealth.proto.values import Health
from drahealth.suites.unit.endings import PATIENCE
from drahealth.suites.unit.expected_errors import rpc_error
from drahealth.suites.unit.fakes.driver_rig import DRIVER, Rig

OPTIONS = DriverOptions(DRIVER, "node-a", ("gpu-0",), "/r", "/d")


class FullApi(ApiServer):
    """An API server whose storage is full after so many slices."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room

    async def create(self, kind: Kind, obj: Object) -> Object:
        self.room -= kind == SLICES
        if self.room < 0:
            raise ApiError(507, "InsufficientStorage", "etcd is full")
        return await super().create(kind, obj)


# -- options


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"name": ""}, "name must not be empty"),
        ({"node": ""}, "node must not be empty"),
        ({"heartbeat": -1.0}, "heartbeat must be a finite number of seconds, 0 for none, got -1.0"),
        ({"heartbeat": float("inf")}, "heartbeat must be a finite number of seconds, 0 for none, got inf"),
        ({"heartbeat": float("nan")}, "heartbeat must be a finite number of seconds, 0 for none, got nan"),
        ({"devices": ("gpu-0", "gpu-1", "gpu-0")}, "duplicate device name: gpu-0"),
        ({"returns": {"gpu-7": ()}}, "returns has unknown devices: gpu-7"),
        (
            {"served_health_apis": ("v9.Health",)},
            f"unknown health API 'v9.Health'; valid: {', '.join(HEALTH_APIS)}",
        ),
        (
            {"health_apis": ("v1alpha1.NodeHealth/WatchResources",)},
            (
                "v1alpha1.NodeHealth/WatchResources is a method and cannot be advertised; "
                "advertise v1alpha1.NodeHealth, and serve v1alpha1.NodeHealth/WatchResources"
            ),
        ),
    ],
)
def test_options_that_make_no_driver_are_refused(wrong: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}$"):
        replace(OPTIONS, **wrong)


WORDS = st.lists(st.text(), unique=True).map(tuple)
WORD = st.text(min_size=1)
RETURNED = st.builds(Returned, st.text(), st.text(), st.none() | WORDS, WORDS, st.text())
RETURNS = st.fixed_dictionaries({"a": st.lists(RETURNED, max_size=3).map(tuple)})


@given(
    st.builds(
        DriverOptions,
        WORD,
        WORD,
        WORDS,
        dra_versions=WORDS,
        health_apis=WORDS,
        heartbeat=st.floats(0, 1e9),
        served_health_apis=st.none() | st.lists(st.sampled_from(sorted(HEALTH_APIS))).map(tuple),
        returns=st.just({}),
    ).flatmap(lambda made: st.just(made) | RETURNS.map(lambda returns: replace(made, devices=("a",), returns=returns)))
)
def test_options_travel_as_json(options: DriverOptions) -> None:
    reader = TypeAdapter(DriverOptions)
    assert reader.validate_json(reader.dump_json(options)) == options
    assert reader.validate_python(asdict(options)) == options


def test_the_pool_is_the_node_unless_it_has_a_name() -> None:
    assert (OPTIONS.pool_name, replace(OPTIONS, pool="rack-7").pool_name) == ("node-a", "rack-7")


# -- what it advertises and serves


async def test_it_advertises_its_endpoint_and_the_configured_versions(rig: Rig) -> None:
    await rig.here(
        dra_versions=("v9.DRAPlugin", "v1.DRAPlugin"), health_apis=("v1alpha1.NodeHealth", "v9.Health")
    ).start()
    info = await rig.ask()
    assert (info.type, info.name, info.endpoint) == ("DRAPlugin", DRIVER, str(rig.root / "data/dra.sock"))
    assert list(info.supported_versions) == ["v9.DRAPlugin", "v1.DRAPlugin", "v1alpha1.NodeHealth", "v9.Health"]
    assert not (await rig.call(PREPARE["v1.DRAPlugin"])).claims


async def test_it_serves_the_node_services_it_advertises_and_no_others(rig: Rig) -> None:
    await rig.here(dra_versions=("v1beta1.DRAPlugin",)).start()
    assert not (await rig.call(PREPARE["v1beta1.DRAPlugin"])).claims
    with rpc_error(grpc.StatusCode.UNIMPLEMENTED):
        await rig.call(PREPARE["v1.DRAPlugin"])


@pytest.mark.counterpart("TestV1ServerWrapper", "TestHealthServerBridge")
@pytest.mark.parametrize("health_api", HEALTH_APIS.values(), ids=HEALTH_APIS)
async def test_every_health_api_reports_the_same_devices(rig: Rig, health_api: HealthApi) -> None:
    driver = rig.here(health_apis=tuple({api.advertised: None for api in HEALTH_APIS.values()}), timeout=7)
    await driver.start()
    claim = (await rig.claim("gpu-0", "gpu-1"))["metadata"]
    wanted = {"namespace": "default", "name": claim["name"], "uid": claim["uid"]}
    await rig.call(PREPARE["v1.DRAPlugin"], claims=[wanted])
    await driver.set_health("gpu-0", Health.UNHEALTHY, "xid 79")
    message = "xid 79" if "message" in health_api.carries else ""
    timeout = 7 if "timeout" in health_api.carries else 0
    async with rig.watch(driver, health_api) as stream:
        report = await stream.report()
    assert [(d.pool, d.device, d.health, d.message, d.timeout) for d in report] == [
        ("node-a", "gpu-0", Health.UNHEALTHY, message, timeout),
        ("node-a", "gpu-1", Health.HEALTHY, "", timeout),
    ]
    assert [event.devices for event in rig.happened(ReportSent)] == [report]


@pytest.mark.counterpart("TestHealthServerBridge/NotSupported")
async def test_unserved_health_api_answers_unimplemented_and_is_counted(rig: Rig) -> None:
    driver = rig.here(served_health_apis=("v1alpha1.DRAResourceHealth",))
    await driver.start()
    for health_api in (V1, NODE_HEALTH, NODE_HEALTH_DRAFT):
        async with rig.watch(driver, health_api) as stream:
            with pytest.raises(grpc.aio.AioRpcError, match=f"{health_api.name} is not served"):
                await stream.raw()
    async with rig.watch(driver, V1ALPHA1) as stream:
        assert len(await stream.report()) == 2
    asked = {V1.name: 1, NODE_HEALTH.name: 1, NODE_HEALTH_DRAFT.name: 1, V1ALPHA1.name: 1}
    assert ((await driver.state()).stream_requests, len(rig.happened(ReportSent))) == (asked, 1)


@pytest.mark.parametrize(
    ("advertised", "served", "answered"),
    [
        (("v1.DRAResourceHealth", "v9.Health"), None, [V1]),
        (("v1alpha1.NodeHealth",), None, [NODE_HEALTH, NODE_HEALTH_DRAFT]),
        (("v1alpha1.NodeHealth",), (NODE_HEALTH_DRAFT.name,), [NODE_HEALTH_DRAFT]),
        (("v1alpha1.NodeHealth",), (), []),
        ((), (V1.name,), [V1]),
    ],
)
def test_advertised_services_are_served_by_default(
    advertised: tuple[str, ...], served: tuple[str, ...] | None, answered: list[HealthApi]
) -> None:
    options = replace(OPTIONS, health_apis=advertised, served_health_apis=served)
    assert list(options.answered_apis) == answered


async def test_driver_without_cdi_ids_prepares_devices_without_cdi_ids(rig: Rig) -> None:
    await rig.here(cdi_ids=False).start()
    claim = (await rig.claim("gpu-0"))["metadata"]
    wanted = {"namespace": "default", "name": claim["name"], "uid": claim["uid"]}
    (device,) = (await rig.call(PREPARE["v1.DRAPlugin"], claims=[wanted])).claims[claim["uid"]].devices
    assert (device.device_name, list(device.cdi_device_ids)) == ("gpu-0", [])


@pytest.mark.parametrize(
    ("result", "error"),
    [({}, "device gpu-0 is prepared for another claim"), ({"adminAccess": True}, ""), ({"shareID": "a"}, "")],
)
async def test_device_that_another_claim_holds_is_refused(rig: Rig, result: dict[str, Any], error: str) -> None:
    await rig.here().start()
    first = (await rig.claim("gpu-0"))["metadata"]
    second = await rig.claim("gpu-0", name="second")
    second["status"]["allocation"]["devices"]["results"][0].update(result)
    freed = await rig.api.replace_status(CLAIMS, {**second, "status": {}})  # an allocation does not change in place
    await rig.api.replace_status(CLAIMS, {**freed, "status": second["status"]})
    for claim in (first, second["metadata"]):
        wanted = {"namespace": "default", "name": claim["name"], "uid": claim["uid"]}
        answer = (await rig.call(PREPARE["v1.DRAPlugin"], claims=[wanted])).claims[claim["uid"]]
    assert answer.error == error


async def test_device_that_is_not_published_is_refused(rig: Rig) -> None:
    await rig.here().start()
    claim = (await rig.claim("gpu-9"))["metadata"]
    wanted = {"namespace": "default", "name": claim["name"], "uid": claim["uid"]}
    answer = (await rig.call(PREPARE["v1.DRAPlugin"], claims=[wanted])).claims[claim["uid"]]
    assert answer.error == f"driver {DRIVER} does not publish device gpu-9 of pool node-a"


async def test_prepared_claim_stays_prepared_without_its_device(rig: Rig) -> None:
    claim = (await rig.claim("gpu-1"))["metadata"]
    wanted = {"namespace": "default", "name": claim["name"], "uid": claim["uid"]}
    for devices in (("gpu-0", "gpu-1"), ("gpu-0",)):
        driver = rig.here(devices=devices)
        await driver.start()
        answer = (await rig.call(PREPARE["v1.DRAPlugin"], claims=[wanted])).claims[claim["uid"]]
        assert (answer.error, [device.device_name for device in answer.devices]) == ("", ["gpu-1"])
        await driver.crash()


@pytest.mark.parametrize("version", sorted(PREPARE))
async def test_prepared_device_can_be_returned_as_other_devices(rig: Rig, version: str) -> None:
    odd = Returned("a/b", "", ("x", "y"), ("one", "one"), "share"), Returned("p", "d")
    await rig.here(returns={"gpu-0": odd}).start()
    claim = (await rig.claim("gpu-0"))["metadata"]
    wanted = {"namespace": "default", "name": claim["name"], "uid": claim["uid"]}
    devices = (await rig.call(PREPARE[version], claims=[wanted])).claims[claim["uid"]].devices
    assert [(d.pool_name, d.device_name, [*d.request_names], [*d.cdi_device_ids]) for d in devices] == [
        ("a/b", "", ["x", "y"], ["one", "one"]),
        ("p", "d", ["gpu"], []),
    ]


async def test_devices_with_a_shared_cdi_id_have_one_cdi_device(rig: Rig, tmp_path: Path) -> None:
    await rig.here(shared_cdi_id=True, cdi_dir=str(tmp_path)).start()
    claim = (await rig.claim("gpu-0", "gpu-1"))["metadata"]
    wanted = {"namespace": "default", "name": claim["name"], "uid": claim["uid"]}
    devices = (await rig.call(PREPARE["v1.DRAPlugin"], claims=[wanted])).claims[claim["uid"]].devices
    assert [list(device.cdi_device_ids) for device in devices] == [[f"{DRIVER}/gpu=all"]] * 2
    assert '"name": "all"' in (tmp_path / f"{DRIVER}-gpu.json").read_text()


# -- sockets


async def test_two_instances_live_side_by_side(rig: Rig) -> None:
    for instance in ("a", "b"):
        await rig.here(instance=instance).start()
    visible = [name for name in rig.sockets() if "/." not in name]
    assert visible == ["data/dra-a.sock", "data/dra-b.sock", *(f"registry/{DRIVER}-{i}-reg.sock" for i in "ab")]


@pytest.mark.parametrize("instance", ["a/b", "..", "a b", "a\0", "a\n", "-a", "a-", "\u00e9", "\ud800"])
def test_invalid_instance_name_is_rejected(instance: str) -> None:
    words = f"^instance must be .*, got {re.escape(repr(instance))}$"
    with pytest.raises(ValueError, match=words):
        replace(OPTIONS, instance=instance)
    with pytest.raises(ValueError, match=words):
        PluginOptions("example.com/tpu", (), instance=instance, plugins_dir="/d")


async def test_leftover_sockets_are_replaced(rig: Rig) -> None:
    first = rig.here()
    await first.start()
    await first.crash()
    second = rig.here()
    await second.start()
    assert (await rig.ask()).name == DRIVER


async def test_driver_that_never_started_removes_no_files(rig: Rig) -> None:
    running, idle = rig.here(), rig.here()
    await running.start()
    before = rig.sockets()
    await idle.stop()
    assert rig.sockets() == before


@pytest.mark.parametrize("folder", ["registry_dir", "data_dir"])
async def test_too_long_socket_folder_is_rejected(rig: Rig, folder: str) -> None:
    options: dict[str, Any] = {folder: "/" + "x" * 100}
    with pytest.raises(ValueError, match="/xx"):
        rig.here(**options)


# -- failed starts


@pytest.mark.parametrize("freed", [False, True], ids=["all of it", "but its registration socket"])
async def test_occupied_socket_is_rejected_and_left_unchanged(rig: Rig, freed: bool) -> None:
    first, second = (rig.here(cdi_dir=str(rig.root / "cdi")) for _ in range(2))
    await first.start()
    if freed:
        await first.unregister()
    before = [rig.sockets(), await rig.slices(), [*(rig.root / "cdi").iterdir()]]
    with pytest.raises(SocketInUse):
        await second.start()
    assert [rig.sockets(), await rig.slices(), [*(rig.root / "cdi").iterdir()]] == before
    await second.retire()
    assert [rig.sockets(), await rig.slices(), [*(rig.root / "cdi").iterdir()]] == before


@pytest.mark.parametrize("blocked", ["data/dra.sock", f"registry/.{DRIVER}-reg", "registry"])
async def test_failed_start_leaves_no_sockets_and_can_be_repeated(rig: Rig, blocked: str) -> None:
    driver = rig.here(heartbeat=1.0)
    block(rig.root / blocked)
    with pytest.raises(OSError, match=blocked):
        await driver.start()
    assert (rig.sockets(), await rig.slices()) == ([], [])
    unblock(rig.root / blocked)
    await driver.start()
    assert len(await rig.slices()) == 1


def block(path: Path) -> None:
    """Nothing of that name can be made any more."""
    if path.suffix or path.name.startswith("."):
        (path / "in the way").mkdir(parents=True)
    else:
        path.write_text("not a folder")


def unblock(path: Path) -> None:
    if path.is_dir():
        (path / "in the way").rmdir()
        path.rmdir()
    else:
        path.unlink()


async def test_devices_that_cannot_all_be_published_are_not_published_at_all(rig: Rig) -> None:
    rig.api = FullApi(room=2)
    driver = rig.here(devices=tuple(f"gpu-{number}" for number in range(300)))
    with pytest.raises(ApiError, match="etcd is full"):
        await driver.start()
    assert (rig.sockets(), await rig.slices(), (await driver.state()).running) == ([], [], False)


# -- the pool


async def test_300_devices_make_three_slices_of_one_generation(rig: Rig) -> None:
    await rig.here(devices=tuple(f"gpu-{number}" for number in range(300))).start()
    assert await rig.slices() == [
        (f"node-a-{DRIVER}-0", 1, 3, 128),
        (f"node-a-{DRIVER}-1", 1, 3, 128),
        (f"node-a-{DRIVER}-2", 1, 3, 44),
    ]


async def test_a_pool_that_shrinks_leaves_no_slice_of_an_older_generation(rig: Rig) -> None:
    for count in (300, 2, 129):
        driver = rig.here(devices=tuple(f"gpu-{number}" for number in range(count)))
        await driver.start()
        await driver.stop()
    assert await rig.slices() == [(f"node-a-{DRIVER}-0", 3, 2, 128), (f"node-a-{DRIVER}-1", 3, 2, 1)]


async def test_slices_of_other_drivers_and_nodes_are_left_alone(rig: Rig) -> None:
    for driver, node in (("other.example.com", "node-a"), (DRIVER, "node-b")):
        owner = Owner(driver, node)
        (pool,) = desired_pools(owner, {node: Pool([{"name": "x"}])})
        (name,) = pool.slices
        await rig.api.create(SLICES, slice_object(owner, pool, name, 9))
    mine = rig.here()
    await mine.start()
    await mine.retire()
    assert [(name, generation) for name, generation, *_ in await rig.slices()] == [
        ("node-a-other.example.com-0", 9),
        (f"node-b-{DRIVER}-0", 9),
    ]


async def test_slice_deleted_while_the_server_is_down_is_published_again(rig: Rig) -> None:
    driver = rig.here()
    await driver.start()
    await asyncio.sleep(0)  # its watch is open
    rig.api.restart()
    await rig.api.delete(SLICES, f"node-a-{DRIVER}-0")
    async with asyncio.timeout(PATIENCE), aclosing(rig.api.watch(SLICES)) as events:
        assert (await anext(events)).type == "ADDED"  # a second later, as the driver's clock has it
    assert await rig.slices() == [(f"node-a-{DRIVER}-0", 1, 1, 2)]
