"""ResourceSlices that stay as a driver published them, whatever others do."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from drahealth.fakes.api import NODES, SLICES, ApiError, Kind, Object
from drahealth.fakes.api_server.http import HttpApi
from drahealth.fakes.api_server.server import ApiServer
from drahealth.fakes.clients.kube_client import KubeClient
from drahealth.fakes.clock import JumpClock
from drahealth.fakes.kubelet_plugin import Pool, PublishState
from drahealth.fakes.kubelet_plugin.pools import Owner
from drahealth.fakes.kubelet_plugin.slice_sync import SliceSync
from drahealth.suites.unit.fakes.plugin_rig import DRIVER, PluginRig, plugin_rig

MAIN = f"node-a-{DRIVER}"


@pytest.fixture
async def rig() -> AsyncIterator[PluginRig]:
    async with plugin_rig() as rig:
        yield rig


def pool(count: int, *, name: str = "gpu", **more: Any) -> Pool:
    return Pool([{"name": f"{name}-{number}", **more} for number in range(count)])


def devices(count: int, name: str = "gpu") -> list[str]:
    return [f"{name}-{number}" for number in range(count)]


async def slices(api: ApiServer, wanted: dict[str, tuple[str, int, list[str]]]) -> None:
    """Returns once the slices are these: pool, generation and devices of each."""
    async with aclosing(api.watch(SLICES)) as changes:
        found: dict[str, tuple[str, int, list[str]]] = {}
        while found != wanted:
            event = await anext(changes)
            spec = event.object["spec"]
            found[event.object["metadata"]["name"]] = (
                spec["pool"]["name"],
                spec["pool"]["generation"],
                [device["name"] for device in spec["devices"]],
            )
            if event.type == "DELETED":
                del found[event.object["metadata"]["name"]]


# -- publishing


async def test_pools_become_slices_of_the_node(rig: PluginRig) -> None:
    async with rig.running() as helper:
        helper.publish_resources({"node-a": pool(2), "rack": pool(1, name="nic")})
        await helper.published()
        assert await rig.slices() == {
            f"{MAIN}-0": ("node-a", 1, devices(2)),
            f"{MAIN}-rack-0": ("rack", 1, devices(1, "nic")),
        }
        assert helper.publish_state == PublishState(True, "", {"node-a": 1, "rack": 1})


async def test_nothing_is_touched_before_something_is_published(rig: PluginRig) -> None:
    await rig.api.create(SLICES, foreign("stale", DRIVER, "node-a"))
    async with rig.running() as helper:
        await rig.ask()
        assert helper.publish_state == PublishState()
    assert list(await rig.slices()) == ["stale"]


@pytest.mark.parametrize(("taints", "sizes"), [([], [128, 72]), ([{"key": "a", "effect": "None"}], [64, 64, 64, 8])])
async def test_a_slice_has_no_more_devices_than_the_api_allows(
    rig: PluginRig, taints: list[Object], sizes: list[int]
) -> None:
    async with rig.running() as helper:
        helper.publish_resources({"node-a": pool(200, taints=taints)})
        await helper.published()
    found = await rig.api.list(SLICES)
    assert [len(slice_["spec"]["devices"]) for slice_ in found] == sizes
    assert {slice_["spec"]["pool"]["resourceSliceCount"] for slice_ in found} == {len(sizes)}


async def test_what_changes_gets_a_new_generation_and_what_does_not_keeps_its_own(rig: PluginRig) -> None:
    async with rig.running() as helper:
        for count in (300, 300, 2):
            helper.publish_resources({"node-a": pool(count), "rack": pool(1)})
            await helper.published()
    assert await rig.slices() == {f"{MAIN}-0": ("node-a", 2, devices(2)), f"{MAIN}-rack-0": ("rack", 1, devices(1))}


async def test_a_pool_that_is_not_published_any_more_goes(rig: PluginRig) -> None:
    async with rig.running() as helper:
        helper.publish_resources({"node-a": pool(1), "rack": pool(1)})
        await helper.published()
        helper.publish_resources({"rack": pool(1)})
        await helper.published()
    assert list(await rig.slices()) == [f"{MAIN}-rack-0"]


async def test_a_pool_without_devices_is_published_as_empty(rig: PluginRig) -> None:
    async with rig.running() as helper:
        helper.publish_resources({"node-a": Pool()})
        await helper.published()
    assert await rig.slices() == {f"{MAIN}-0": ("node-a", 1, [])}


async def test_after_a_restart_the_same_pools_are_left_as_they_are(rig: PluginRig) -> None:
    versions = []
    for _ in range(2):
        async with rig.running() as helper:
            helper.publish_resources({"node-a": pool(200)})
            await helper.published()
        versions.append([slice_["metadata"]["resourceVersion"] for slice_ in await rig.api.list(SLICES)])
    assert versions[0] == versions[1]


async def test_the_caller_may_change_what_it_published(rig: PluginRig) -> None:
    mine = pool(1)
    async with rig.running() as helper:
        helper.publish_resources({"node-a": mine})
        mine.devices[0]["name"] = "another"
        await helper.published()
    assert await rig.slices() == {f"{MAIN}-0": ("node-a", 1, devices(1))}


async def test_resources_can_be_withdrawn(rig: PluginRig) -> None:
    async with rig.running() as helper:
        helper.publish_resources({"node-a": pool(200)})
        await helper.published()
        await helper.withdraw_resources()
        assert await rig.slices() == {}


async def test_who_waits_for_a_driver_that_stops_is_told(rig: PluginRig) -> None:
    rig.api.down()
    async with rig.running() as helper:
        helper.publish_resources({"node-a": pool(1)})
        waiting = asyncio.create_task(helper.published())
        await helper.publish_attempted()
    with pytest.raises(ValueError, match="the driver has stopped, and publishes no more"):
        await waiting


@pytest.mark.parametrize("options", [{"api": None}, {"node_name": ""}])
async def test_publishing_needs_an_api_server_and_a_node(rig: PluginRig, options: dict[str, Any]) -> None:
    async with rig.running(**options) as helper:
        with pytest.raises(ValueError, match="resources are published on a node, to an API server"):
            helper.publish_resources({})


async def test_what_is_no_plain_data_is_refused_at_once(rig: PluginRig) -> None:
    async with rig.running() as helper:
        with pytest.raises(ValueError, match="devices are published as plain data"):
            helper.publish_resources({"node-a": Pool([{"name": object()}])})


# -- whose they are


@pytest.mark.parametrize("known", ["by uid", "by object", "looked up"])
async def test_slices_belong_to_their_node(rig: PluginRig, known: str) -> None:
    node = await rig.api.create(NODES, {"metadata": {"name": "node-a"}})
    uid = node["metadata"]["uid"]
    options: dict[str, Any] = {"by uid": {"node_uid": uid}, "by object": {"node": node, "node_name": ""}}.get(known, {})
    async with rig.running(**options) as helper:
        helper.publish_resources({"node-a": pool(1)})
        await helper.published()
    (slice_,) = await rig.api.list(SLICES)
    owner = {"apiVersion": "v1", "kind": "Node", "name": "node-a", "uid": uid, "controller": True}
    assert slice_["metadata"]["ownerReferences"] == [owner]


@pytest.mark.parametrize("options", [{}, {"node_uid": "abc", "owned_by_node": False}])
async def test_without_a_known_node_slices_have_no_owner(rig: PluginRig, options: dict[str, Any]) -> None:
    async with rig.running(**options) as helper:
        helper.publish_resources({"node-a": pool(1)})
        await helper.published()
    (slice_,) = await rig.api.list(SLICES)
    assert "ownerReferences" not in slice_["metadata"]


# -- what others do


async def test_what_is_deleted_comes_back_with_its_generation(rig: PluginRig) -> None:
    async with rig.running() as helper:
        helper.publish_resources({"node-a": pool(200)})
        await helper.published()
        await rig.api.delete(SLICES, f"{MAIN}-1")
        await slices(
            rig.api, {f"{MAIN}-0": ("node-a", 1, devices(200)[:128]), f"{MAIN}-1": ("node-a", 1, devices(200)[128:])}
        )


async def test_what_is_changed_is_published_again_with_a_new_generation(rig: PluginRig) -> None:
    async with rig.running() as helper:
        helper.publish_resources({"node-a": pool(2)})
        await helper.published()
        (slice_,) = await rig.api.list(SLICES)
        slice_["spec"]["devices"] = []
        await rig.api.replace(SLICES, slice_)
        await slices(rig.api, {f"{MAIN}-0": ("node-a", 2, devices(2))})


async def test_what_somebody_adds_to_the_drivers_pools_goes(rig: PluginRig) -> None:
    async with rig.running() as helper:
        helper.publish_resources({"node-a": pool(1)})
        await helper.published()
        await rig.api.create(SLICES, foreign("intruder", DRIVER, "node-a"))
        await slices(rig.api, {f"{MAIN}-0": ("node-a", 1, devices(1))})
        rig.clock.jump(1)
        await rig.api.create(SLICES, foreign("higher", DRIVER, "node-a", generation=7))
        await slices(rig.api, {f"{MAIN}-0": ("node-a", 8, devices(1))})


async def test_slices_of_other_drivers_and_nodes_are_left_alone(rig: PluginRig) -> None:
    await rig.api.create(SLICES, foreign("a", "other.example.com", "node-a"))
    await rig.api.create(SLICES, foreign("b", DRIVER, "node-b"))
    async with rig.running() as helper:
        helper.publish_resources({"node-a": pool(1)})
        await helper.published()
        await helper.withdraw_resources()
    assert list(await rig.slices()) == ["a", "b"]


async def test_of_two_instances_the_one_that_published_last_is_left_alone(rig: PluginRig) -> None:
    async with rig.running(rolling_update="old") as old, rig.running(rolling_update="new") as new:
        old.publish_resources({"node-a": pool(1)})
        await old.published()
        new.publish_resources({"node-a": pool(2)})
        await new.published()
        await old.published()
        assert await rig.slices() == {f"{MAIN}-0": ("node-a", 2, devices(2))}
        await new.withdraw_resources()
        rig.clock.jump(1)
        await slices(rig.api, {f"{MAIN}-0": ("node-a", 3, devices(1))})


# -- servers that are away, or refuse


async def test_a_server_that_is_away_is_tried_again_every_second(rig: PluginRig) -> None:
    rig.api.down()
    async with rig.running() as helper:
        helper.publish_resources({"node-a": pool(1)})
        error = await helper.publish_attempted()
        assert (isinstance(error, ApiError), helper.publish_state.in_sync) == (True, False)
        assert helper.publish_state.error.startswith("ServiceUnavailable")
        rig.api.up()
        rig.clock.jump(1)
        await helper.published()
    assert helper.publish_state.error == ""


class Refusing(ApiServer):
    """Refuses slices with a device of this name, and tells of each time."""

    def __init__(self, clock: JumpClock) -> None:
        super().__init__(clock=clock)
        self.refused: asyncio.Queue[None] = asyncio.Queue()

    async def create(self, kind: Kind, obj: Object) -> Object:
        if kind == SLICES and any(device["name"] == "bad" for device in obj["spec"]["devices"]):
            self.refused.put_nowait(None)
            raise ApiError(422, "Invalid", "spec.devices[0].name is bad")
        return await super().create(kind, obj)


async def test_what_is_refused_is_told_and_tried_ever_less_often_until_it_is_another(
    rig: PluginRig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    api = Refusing(rig.clock)
    async with rig.running(api=api, node_uid="abc") as helper:
        helper.publish_resources({"node-a": Pool([{"name": "bad"}])})
        assert str(await helper.publish_attempted()) == "Invalid: spec.devices[0].name is bad"
        assert helper.publish_state == PublishState(False, "Invalid: spec.devices[0].name is bad", {})
        await api.refused.get()
        rig.clock.jump(1)
        await api.refused.get()
        helper.publish_resources({"node-a": pool(1)})
        await helper.published()
    assert rig.errors == ["Invalid: spec.devices[0].name is bad"] * 2
    assert [record.getMessage() for record in caplog.records] == [
        f"driver {DRIVER} cannot publish its resources: Invalid: spec.devices[0].name is bad"
    ]


class Recorded(JumpClock):
    """Tells of each pause."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: asyncio.Queue[float] = asyncio.Queue()

    async def sleep(self, seconds: float) -> None:
        self.pauses.put_nowait(seconds)
        await super().sleep(seconds)


async def test_pauses_grow_to_half_a_minute(rig: PluginRig) -> None:
    clock = Recorded()
    sync = SliceSync(Refusing(clock), Owner(DRIVER, "node-a"), clock)
    sync.publish({"node-a": Pool([{"name": "bad"}])})
    pauses = []
    for _ in range(8):
        pauses.append(await clock.pauses.get())
        clock.jump(pauses[-1])
    await sync.stop()
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]


class Forgetful(ApiServer):
    """Drops the taints of devices, as a server does whose feature gate is off, and writes quantities its own way."""

    async def create(self, kind: Kind, obj: Object) -> Object:
        obj = deepcopy(obj)
        for device in obj.get("spec", {}).get("devices", []):
            device.pop("taints", None)
            device["capacity"] = {"memory": {"value": "1Gi"}}
        return await super().create(kind, obj)


async def test_what_the_server_stores_otherwise_is_told_and_not_written_again_and_again(rig: PluginRig) -> None:
    api = Forgetful(clock=rig.clock)
    async with rig.running(api=api) as helper:
        tainted = pool(1, taints=[{"key": "a", "effect": "NoSchedule"}], capacity={"memory": {"value": "1024Mi"}})
        helper.publish_resources({"node-a": tainted})
        await helper.published()
        (before,) = await api.list(SLICES)
        await api.create(SLICES, foreign("intruder", DRIVER, "node-a"))
        await slices(api, {f"{MAIN}-0": ("node-a", 1, devices(1))})
        assert await api.list(SLICES) == [before]
    assert rig.errors == [f"the API server does not keep taints of the devices in slice {MAIN}-0"]


class Dating(ApiServer):
    """Writes down when a taint came, as the real one does: by the version that had it first."""

    async def create(self, kind: Kind, obj: Object) -> Object:
        return await super().create(kind, self._dated(obj))

    async def replace(self, kind: Kind, obj: Object) -> Object:
        return await super().replace(kind, self._dated(obj))

    def _dated(self, obj: Object) -> Object:
        obj = deepcopy(obj)
        number = obj["spec"]["pool"]["generation"]
        for taint in (taint for device in obj["spec"]["devices"] for taint in device.get("taints", [])):
            taint.setdefault("timeAdded", f"2026-01-0{number}T00:00:00Z")
        return obj


async def test_a_taint_that_stays_keeps_the_time_at_which_it_came(rig: PluginRig) -> None:
    api = Dating(clock=rig.clock)
    first, second = {"key": "a", "effect": "NoExecute"}, {"key": "b", "effect": "NoSchedule"}
    async with rig.running(api=api) as helper:
        for taints in ([], [first], [first, second]):
            helper.publish_resources({"node-a": pool(1, taints=taints)})
            await helper.published()
    (slice_,) = await api.list(SLICES)
    (device,) = slice_["spec"]["devices"]
    assert device["taints"] == [
        {**first, "timeAdded": "2026-01-02T00:00:00Z"},
        {**second, "timeAdded": "2026-01-03T00:00:00Z"},
    ]


class Racing(ApiServer):
    """Somebody else is always a little faster, so many times."""

    races = 3

    async def replace(self, kind: Kind, obj: Object) -> Object:
        if kind == SLICES and self.races:
            self.races -= 1
            stored = await self.get(SLICES, obj["metadata"]["name"])
            stored["metadata"]["labels"] = {"race": str(self.races)}
            await super().replace(SLICES, stored)
        return await super().replace(kind, obj)


async def test_nothing_is_written_over_unseen(rig: PluginRig) -> None:
    api = Racing(clock=rig.clock)
    async with rig.running(api=api) as helper:
        for count in (1, 2):
            helper.publish_resources({"node-a": pool(count)})
            await helper.published()
    (slice_,) = await api.list(SLICES)
    assert (slice_["metadata"]["labels"], len(slice_["spec"]["devices"]), rig.errors) == ({"race": "0"}, 2, [])


@pytest.fixture
async def client(rig: PluginRig) -> AsyncIterator[KubeClient]:
    """A client of the same server, over HTTP."""
    http = HttpApi(rig.api)
    await http.start()
    http.write_kubeconfig(rig.root / "kubeconfig")
    client = await KubeClient.from_kubeconfig(rig.root / "kubeconfig")
    yield client
    await client.close()
    await http.stop()


async def test_over_http_too_what_is_deleted_comes_back(rig: PluginRig, client: KubeClient) -> None:
    async with rig.running(api=client) as helper:
        helper.publish_resources({"node-a": pool(200)})
        await helper.published()
        await rig.api.delete(SLICES, f"{MAIN}-1")
        await slices(
            rig.api, {f"{MAIN}-0": ("node-a", 1, devices(200)[:128]), f"{MAIN}-1": ("node-a", 1, devices(200)[128:])}
        )


# -- whatever happens


NAMES = [f"{MAIN}-0", f"{MAIN}-1", f"{MAIN}-rack-0", "intruder"]
PUBLISHED = st.dictionaries(st.sampled_from(["node-a", "rack"]), st.sampled_from([0, 1, 2, 129]))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), PUBLISHED),
        st.tuples(st.just("delete"), st.sampled_from(NAMES)),
        st.tuples(st.just("empty"), st.sampled_from(NAMES)),
        st.tuples(st.just("raise"), st.sampled_from(NAMES)),
        st.tuples(st.just("create"), st.sampled_from([*NAMES, f"{MAIN}-rack-1"])),
        st.tuples(st.just("away"), st.booleans()),
        st.tuples(st.just("rest"), st.integers(0, 3)),
    ),
    max_size=12,
)


@settings(deadline=None, max_examples=60)
@given(STEPS)
@example([("publish", {"node-a": 256}), ("rest", 3), ("publish", {"node-a": 128})])
@example([("create", f"{MAIN}-rack-0"), ("publish", {"rack": 1})])
@example([("publish", {"node-a": 129}), ("rest", 3), ("delete", f"{MAIN}-1"), ("raise", f"{MAIN}-0"), ("rest", 3)])
async def test_whatever_is_deleted_and_changed_it_becomes_what_was_published_last(steps: list[tuple[str, Any]]) -> None:
    clock = JumpClock()
    api = ApiServer(clock=clock)
    sync = SliceSync(api, Owner(DRIVER, "node-a"), clock)
    last: dict[str, int] = {}
    async with asyncio.timeout(60):
        sync.publish({})
        for what, of in steps:
            last = of if what == "publish" else last
            await happen(api, sync, what, of)
        api.up()
        await settled(sync, clock)
        await sync.stop()
    found = [slice_["spec"] for slice_ in await api.list(SLICES)]
    by_pool = {name: [spec for spec in found if spec["pool"]["name"] == name] for name in last}
    assert len(found) == sum(map(len, by_pool.values()))
    for name, specs in by_pool.items():
        assert [device["name"] for spec in specs for device in spec["devices"]] == devices(last[name])
        assert {(s["pool"]["generation"], s["pool"]["resourceSliceCount"]) for s in specs} == {
            (specs[0]["pool"]["generation"], len(specs))
        }


async def happen(api: ApiServer, sync: SliceSync, what: str, of: Any) -> None:
    try:
        match what:
            case "publish":
                sync.publish({name: pool(count) for name, count in of.items()})
            case "delete":
                await api.delete(SLICES, of)
            case "create":
                await api.create(SLICES, foreign(of, DRIVER, "node-a"))
            case "away":
                api.down() if of else api.up()
            case "rest":
                for _ in range(of * 10):
                    await asyncio.sleep(0)
            case _:
                found = await api.get(SLICES, of)
                if what == "empty":
                    found["spec"]["devices"] = []
                else:
                    found["spec"]["pool"]["generation"] += 3
                await api.replace(SLICES, found)
    except ApiError:
        pass  # it was not there


async def settled(sync: SliceSync, clock: JumpClock) -> None:
    """Nothing is left to do, however long one waits."""
    for _ in range(3):
        clock.jump(31)
        for _ in range(30):
            await asyncio.sleep(0)
        await sync.in_sync()


def foreign(name: str, driver: str, node: str, generation: int = 1) -> Object:
    """A slice of somebody's."""
    spec = {
        "driver": driver,
        "nodeName": node,
        "pool": {"name": node, "generation": generation, "resourceSliceCount": 1},
        "devices": [{"name": "other"}],
    }
    return {"apiVersion": SLICES.api_version, "kind": SLICES.kind, "metadata": {"name": name}, "spec": spec}
