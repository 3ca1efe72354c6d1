"""Rolling updates of a fake driver, controlled in this process or over a stream."""

import asyncio

import grpc.aio
import pytest

from drahealth.fakes.cluster.api import SLICES
from drahealth.fakes.control.fake_options import DriverControl
from drahealth.fakes.hardware.instances import begin_upgrade
from drahealth.proto.events import Unprepared
from drahealth.proto.health_apis import SERVED_BY_FAKES, V1, V1ALPHA1
from drahealth.proto.services import GET_INFO, PREPARE, UNPREPARE
from drahealth.proto.values import Health
from drahealth.suites.unit.expected_errors import api_error, rpc_error
from drahealth.suites.unit.fakes.driver_rig import DRIVER, Rig
from drahealth.suites.unit.fakes.upgrade_rig import (
    NEWER,
    NEWER_SOCKETS,
    OLDER_SOCKETS,
    PATIENCE,
    WRONG,
    Moody,
    both_run,
    comes_true,
    is_published_by,
    is_well,
    over,
    published_by,
    registers,
    upgraded,
    written_by,
)
from drahealth.suites.unit.manager.rig import until


@pytest.fixture(params=["here", "there"])
async def driver(rig: Rig, request: pytest.FixtureRequest) -> DriverControl:
    """A driver that runs, with two devices, and is registered."""
    cdi = str(rig.root / "cdi")
    driver: DriverControl = rig.here(cdi_dir=cdi) if request.param == "here" else await rig.there(cdi_dir=cdi)
    await driver.start()
    await rig.notify_registration()
    return driver


async def test_a_newer_instance_registers_beside_the_older_one_which_ends_when_the_overlap_has_passed(
    driver: DriverControl, rig: Rig
) -> None:
    upgrading = await both_run(rig, driver)
    assert (rig.sockets(), (await driver.state()).upgrading) == (sorted([*OLDER_SOCKETS, *NEWER_SOCKETS]), True)
    await over(rig, upgrading)
    state = await driver.state()
    assert (rig.sockets(), state.upgrading, state.registered, state.instance) == (NEWER_SOCKETS, False, True, NEWER)
    assert (written_by(rig), await published_by(rig)) == (NEWER, [NEWER])


async def test_each_upgrade_has_an_instance_of_its_own(driver: DriverControl, rig: Rig) -> None:
    await upgraded(rig, driver)
    upgrading = asyncio.create_task(driver.upgrade(0))
    await registers(rig, instance="upgrade-2")
    await asyncio.wait_for(upgrading, PATIENCE)
    assert ((await driver.state()).instance, len(rig.sockets())) == ("upgrade-2", 4)


async def test_upgrade_keeps_the_health_of_devices(driver: DriverControl, rig: Rig) -> None:
    await driver.inject("xid/95", "gpu-0")
    await driver.set_health("gpu-1", Health.UNHEALTHY, "by hand")
    await driver.taint("gpu-0", "example.com/sick")
    await driver.set_heartbeat(7.0)
    before, devices = await driver.state(), await driver.devices()
    await upgraded(rig, driver)
    after = await driver.state()
    assert (after.faults, after.taints, after.heartbeat) == (before.faults, before.taints, 7.0)
    assert (len(after.faults), len(after.taints), await driver.devices()) == (1, 1, devices)


async def test_faults_of_streams_end_with_the_older_instance(driver: DriverControl, rig: Rig) -> None:
    await driver.stream_silence()
    await driver.stream_stall()
    await upgraded(rig, driver)
    async with rig.watch(driver, where=f"data/dra-{NEWER}.sock") as stream:
        assert await stream.shows() == {"gpu-0": "Healthy", "gpu-1": "Healthy"}


async def test_upgrade_keeps_a_running_recovery(driver: DriverControl, rig: Rig) -> None:
    await driver.inject("xid/95", "gpu-0")
    await driver.recover("gpu-reset", "gpu-0", takes=100.0)
    await upgraded(rig, driver)
    assert (await driver.state()).faults == {"gpu-0": ("xid/95",)}
    rig.clock.jump(50)
    await comes_true(lambda: is_well(driver))


async def test_both_instances_report_changes_during_the_overlap(driver: DriverControl, rig: Rig) -> None:
    async with rig.watch(driver) as older:
        await older.report()
        upgrading = await both_run(rig, driver)
        async with rig.watch(driver, where=f"data/dra-{NEWER}.sock") as newer:
            await newer.report()
            await driver.set_health("gpu-0", Health.UNHEALTHY, "odd")
            said = [await stream.shows() for stream in (older, newer)]
            await over(rig, upgrading)
    assert said == [{"gpu-0": "Unhealthy: odd", "gpu-1": "Healthy"}] * 2


async def test_taint_during_the_overlap_is_published_once(driver: DriverControl, rig: Rig) -> None:
    upgrading = await both_run(rig, driver)
    ((_, generation, *_),) = await rig.slices()
    for device in ("gpu-0", "gpu-1"):  # if the older one put back what was before, it did that by the second time
        await driver.taint(device, "example.com/sick")
        await rig.call(GET_INFO, NEWER_SOCKETS[-1])
    await over(rig, upgrading)
    (found,) = await rig.api.list(SLICES)
    tainted = [device["name"] for device in found["spec"]["devices"] if device.get("taints")]
    assert (tainted, await published_by(rig)) == (["gpu-0", "gpu-1"], [NEWER])
    assert found["spec"]["pool"]["generation"] == generation + 2


async def test_claims_that_the_older_instance_prepared_the_newer_one_unprepares(
    driver: DriverControl, rig: Rig
) -> None:
    metadata = (await rig.claim("gpu-0"))["metadata"]
    named = {"namespace": "default", "name": metadata["name"], "uid": metadata["uid"]}
    await rig.call(PREPARE["v1.DRAPlugin"], claims=[named])
    await upgraded(rig, driver)
    assert (await driver.state()).prepared == (metadata["uid"],)
    await rig.call(UNPREPARE["v1.DRAPlugin"], f"data/dra-{NEWER}.sock", claims=[named])
    assert (await driver.state()).prepared == ()
    assert await until(lambda: bool(rig.happened(Unprepared)), PATIENCE)
    assert rig.happened(Unprepared) == [Unprepared(DRIVER, NEWER, metadata["uid"])]


@pytest.mark.parametrize("verb", ["upgrade", "restart"])
async def test_restarted_driver_offers_the_given_health_apis(driver: DriverControl, rig: Rig, verb: str) -> None:
    if verb == "restart":
        await driver.restart(["v1alpha1"])
        where = "dra.sock"
    else:
        upgrading = asyncio.create_task(driver.upgrade(0, ["v1alpha1"]))
        await registers(rig)
        await asyncio.wait_for(upgrading, PATIENCE)
        where = f"dra-{NEWER}.sock"
    async with rig.watch(driver, V1ALPHA1, f"data/{where}") as served, rig.watch(driver, V1, f"data/{where}") as not_:
        assert len(await served.report()) == 2
        with rpc_error(grpc.StatusCode.UNIMPLEMENTED):
            await not_.raw()
    assert (await driver.state()).health_apis == ("v1alpha1.DRAResourceHealth",)


async def test_restarted_driver_keeps_its_state(driver: DriverControl, rig: Rig) -> None:
    await driver.inject("xid/95", "gpu-0")
    await driver.restart()
    state = await driver.state()
    assert (rig.sockets(), state.running, state.registered) == (OLDER_SOCKETS, True, False)
    assert (state.faults, state.health_apis) == ({"gpu-0": ("xid/95",)}, SERVED_BY_FAKES)


# -- what goes wrong


@pytest.mark.parametrize(
    ("stops", "overlap", "offer", "words"),
    [
        (True, 1.0, [], f"driver {DRIVER} is not running; start it before an upgrade"),
        (False, -1.0, [], "overlap must be a finite number of seconds, 0 or more, got -1"),
        (False, 1.0, ["v2"], "v2"),
    ],
)
async def test_invalid_upgrade_is_rejected_and_changes_nothing(
    driver: DriverControl, rig: Rig, stops: bool, overlap: float, offer: list[str], words: str
) -> None:
    if stops:
        await driver.stop()
    before = await driver.state()
    with pytest.raises(WRONG) as refused:
        await driver.upgrade(overlap, offer)
    assert words in str(refused.value)
    assert (await driver.state(), rig.sockets()) == (before, [] if stops else OLDER_SOCKETS)


async def test_restart_with_an_unknown_health_api_changes_nothing(driver: DriverControl, rig: Rig) -> None:
    with pytest.raises(WRONG, match="v2"):
        await driver.restart(["v2"])
    assert (await driver.state()).registered


async def test_there_is_one_upgrade_at_a_time(driver: DriverControl, rig: Rig) -> None:
    upgrading = await both_run(rig, driver)
    with pytest.raises(WRONG, match="upgraded"):
        await driver.upgrade()
    await over(rig, upgrading)
    assert rig.sockets() == NEWER_SOCKETS


async def older_goes_on(driver: DriverControl, rig: Rig) -> bool:
    """As if nothing had been."""
    state = await driver.state()
    assert (rig.sockets(), state.instance, state.registered, state.upgrading) == (OLDER_SOCKETS, "", True, False)
    assert written_by(rig) == ""
    await comes_true(lambda: is_published_by(rig, ""))
    await driver.retire()
    return (rig.sockets(), await rig.slices(), [*(rig.root / "cdi").iterdir()]) == ([], [], [])


async def test_rejected_newer_instance_ends_and_the_older_one_continues(driver: DriverControl, rig: Rig) -> None:
    upgrading = asyncio.create_task(driver.upgrade())
    await registers(rig, ok=False, error="no such version")
    with pytest.raises(WRONG, match=r"rejected the newer instance .*: no such version"):
        await asyncio.wait_for(upgrading, PATIENCE)
    assert await older_goes_on(driver, rig)


async def test_a_newer_instance_that_no_kubelet_registers_ends(driver: DriverControl, rig: Rig) -> None:
    upgrading = asyncio.create_task(driver.upgrade())
    where = f"registry/{DRIVER}-{NEWER}-reg.sock"
    assert await until(lambda: where in rig.sockets(), PATIENCE)
    await rig.call(GET_INFO, where)  # somebody looks at it, and says nothing
    while not upgrading.done():
        rig.clock.jump(1)
        await asyncio.sleep(0.001)
    with pytest.raises(WRONG, match=r"no kubelet registered the newer instance .* within 30 s"):
        await asyncio.wait_for(upgrading, PATIENCE)
    assert await older_goes_on(driver, rig)


async def test_newer_instance_that_cannot_publish_ends_and_the_older_one_continues(rig: Rig) -> None:
    rig.api = Moody(clock=rig.clock)
    driver = rig.here(cdi_dir=str(rig.root / "cdi"))
    await driver.start()
    await rig.notify_registration()
    with api_error(403, "Forbidden"):
        await driver.upgrade()
    assert await older_goes_on(driver, rig)


async def test_upgrade_of_an_unregistered_driver_does_not_wait_for_registration(rig: Rig) -> None:
    driver = rig.here()
    await driver.start()
    await asyncio.wait_for(driver.upgrade(0), PATIENCE)
    assert (rig.sockets(), (await driver.state()).registered) == (NEWER_SOCKETS, False)


@pytest.mark.parametrize("end", ["stop", "retire", "crash"])
@pytest.mark.parametrize("when", ["before the newer one is registered", "while both run"])
async def test_stop_during_an_upgrade_ends_both_instances(driver: DriverControl, rig: Rig, end: str, when: str) -> None:
    if when == "while both run":
        upgrading = await both_run(rig, driver)
    else:
        upgrading = asyncio.create_task(driver.upgrade())
        assert await until(lambda: NEWER_SOCKETS[-1] in rig.sockets(), PATIENCE)
    await getattr(driver, end)()
    with pytest.raises(WRONG, match=f"driver {DRIVER} was stopped during its upgrade"):
        await asyncio.wait_for(upgrading, PATIENCE)
    state = await driver.state()
    assert (state.running, state.upgrading, [s for s in rig.sockets() if "/." in s]) == (False, False, [])
    await driver.start()
    assert (await driver.state()).running
    assert rig.sockets() == (NEWER_SOCKETS if when == "while both run" else OLDER_SOCKETS)
    await driver.retire()
    assert (rig.sockets(), await rig.slices(), [*(rig.root / "cdi").iterdir()]) == ([], [], [])


async def test_begin_upgrade_returns_during_the_overlap(driver: DriverControl, rig: Rig) -> None:
    beginning = asyncio.create_task(begin_upgrade(driver, 60.0))
    await registers(rig)
    assert await asyncio.wait_for(beginning, PATIENCE) == NEWER
    assert (await driver.state()).upgrading
    await driver.retire()  # which ends it, and nobody is told that who began it has left
    assert rig.sockets() == []


async def test_begin_upgrade_raises_if_the_upgrade_fails(driver: DriverControl, rig: Rig) -> None:
    beginning = asyncio.create_task(begin_upgrade(driver, 60.0))
    await registers(rig, ok=False, error="no such version")
    with pytest.raises(WRONG, match="no such version"):
        await asyncio.wait_for(beginning, PATIENCE)
