"""Faults of a fake driver's devices and streams: the same in this process and at the other end of a stream."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from drahealth.fakes.control.commands import Attempt
from drahealth.fakes.control.definition import Devices
from drahealth.fakes.control.fake_options import DriverControl
from drahealth.fakes.control.remote import ControlFailed
from drahealth.proto.values import DeviceHealth, Health
from drahealth.suites.unit.fakes.conftest import Make
from drahealth.suites.unit.fakes.driver_rig import Rig, Stream
from drahealth.suites.unit.manager.rig import settle

WRONG = (ValueError, ControlFailed)  # here and there
OFF = "Unhealthy: XID 79: gpu-0 has fallen off the bus"


async def running(make: Make, **options: Any) -> DriverControl:
    driver = await make(**options)
    await driver.start()
    return driver


async def until(stream: Stream, **expected: str) -> None:
    """The next reports come to say so; devices are written with underscores."""
    wanted = {name.replace("_", "-"): health for name, health in expected.items()}
    while await stream.shows() != wanted:
        pass


async def test_fault_shows_until_its_recovery(make: Make, rig: Rig) -> None:
    driver = await running(make)
    async with rig.watch(driver) as stream:
        await driver.inject("xid/95", "gpu-0")
        await until(stream, gpu_0="Unhealthy: XID 95: gpu-0: memory error, not contained", gpu_1="Healthy")
        assert await driver.recover("app-restart", "gpu-0") == Attempt(left=("xid/95 on gpu-0",))
        assert (await driver.state()).faults == {"gpu-0": ("xid/95",)}
        assert await driver.recover("gpu-reset") == Attempt(cleared=("xid/95 on gpu-0",))
        await until(stream, gpu_0="Healthy", gpu_1="Healthy")


async def test_a_device_stays_ill_while_it_is_being_recovered(make: Make, rig: Rig) -> None:
    driver = await running(make)
    async with rig.watch(driver) as stream:
        await driver.inject("xid/95", "gpu-0")
        assert await driver.recover("gpu-reset", "gpu-0", takes=60) == Attempt(("xid/95 on gpu-0",), (), 60)
        with pytest.raises(WRONG, match=r"gpu-0 .*xid/95"):
            await driver.recover("reboot", "gpu-0")
        assert (await driver.state()).faults == {"gpu-0": ("xid/95",)}
        rig.clock.jump(61)
        await until(stream, gpu_0="Healthy", gpu_1="Healthy")


async def test_recovery_continues_while_the_driver_is_stopped(make: Make, rig: Rig) -> None:
    driver = await running(make)
    await driver.inject("xid/95", "gpu-0")
    await driver.recover("gpu-reset", takes=60)
    await driver.crash()
    rig.clock.jump(61)
    await driver.start()
    async with rig.watch(driver) as stream:
        await until(stream, gpu_0="Healthy", gpu_1="Healthy")


async def test_device_off_the_bus_is_reported_once_and_then_omitted(make: Make, rig: Rig) -> None:
    driver = await running(make)
    async with rig.watch(driver) as stream:
        await driver.inject("xid/79", "gpu-0")
        await until(stream, gpu_0=OFF, gpu_1="Healthy")
        await driver.inject("xid/63", "gpu-1")
        assert list(await stream.shows()) == ["gpu-1"]
        await driver.clear("xid/63", "gpu-1")
        await driver.clear("xid/79", "gpu-0")
        await until(stream, gpu_0="Healthy", gpu_1="Healthy")


async def test_claimed_recovery_reports_a_broken_device_as_healthy(make: Make, rig: Rig) -> None:
    driver = await running(make, policy="strict")
    async with rig.watch(driver) as stream:
        await driver.inject("xid/63", "gpu-1")
        assert await driver.recover("gpu-reset", "gpu-1", claimed=True) == Attempt(left=("xid/63 on gpu-1",))
        await until(stream, gpu_0="Healthy", gpu_1="Healthy")
        assert (await driver.state()).faults == {"gpu-1": ("xid/63",)}


async def test_a_fault_of_a_parent_shows_on_its_partitions(make: Make, rig: Rig) -> None:
    driver = await running(make, devices=("gpu-0/mig-0", "gpu-0/mig-1"))
    async with rig.watch(driver) as stream:
        await driver.inject("xid/95", "gpu-0/mig-1")
        unwell = "Unhealthy: XID 95: gpu-0/mig-{}: memory error, not contained"
        await until(stream, gpu_0_mig_0=unwell.format(0), gpu_0_mig_1=unwell.format(1))


async def test_stalled_reports_are_sent_after_the_stall(make: Make, rig: Rig) -> None:
    driver = await running(make, devices=("gpu-0",))
    async with rig.watch(driver) as stream:
        assert await stream.shows() == {"gpu-0": "Healthy"}
        await driver.stream_stall()
        for message in ("a", "b"):
            await driver.set_health("gpu-0", Health.UNHEALTHY, message)
        await driver.stream_restore("stall")
        assert [await stream.shows() for _ in "ab"] == [{"gpu-0": "Unhealthy: a"}, {"gpu-0": "Unhealthy: b"}]


async def test_delayed_report_is_sent_after_its_delay(make: Make, rig: Rig) -> None:
    driver = await running(make, devices=("gpu-0",))
    async with rig.watch(driver) as stream:
        assert await stream.shows() == {"gpu-0": "Healthy"}
        await driver.stream_delay(3600)
        await driver.set_health("gpu-0", Health.UNHEALTHY, "an hour ago")
        await driver.state()
        rig.clock.jump(3601)
        assert await stream.shows() == {"gpu-0": "Unhealthy: an hour ago"}


async def test_slow_client_misses_reports_but_receives_the_last_state(rig: Rig) -> None:
    driver = rig.here(devices=tuple(f"gpu-{number}" for number in range(2000)))
    for name in driver.options.devices:
        await driver.set_health(name, Health.HEALTHY, "x" * 1000)
    await driver.start()
    async with rig.watch(driver) as stream:
        for number in range(40):
            await driver.set_health("gpu-0", Health.UNHEALTHY, f"{number:02}")
            await settle()
        heard = [(await stream.report())[0].message]
        while heard[-1] != "39":
            heard.append((await stream.report())[0].message)
    assert len(heard) < 40
    assert heard[1:] == sorted(heard[1:])


async def survivors(seed: int) -> list[str]:
    """Of twenty messages those that are not lost, with a driver of this seed."""
    rig = Rig()
    driver = rig.here(devices=("gpu-0",), seed=seed)
    await driver.start()
    async with rig.watch(driver) as stream:
        await stream.report()
        await driver.stream_drop(0.5)
        for number in range(20):
            await driver.report([DeviceHealth("node-a", "gpu-0", Health.HEALTHY, str(number))])
        await driver.stream_restore("drop")
        await driver.report([DeviceHealth("node-a", "gpu-0", Health.HEALTHY, "the end")])
        heard = [(await stream.report())[0].message]
        while heard[-1] != "the end":
            heard.append((await stream.report())[0].message)
    await rig.close()
    return heard


async def test_seed_decides_the_dropped_messages() -> None:
    first, again, other = [await survivors(seed) for seed in (1, 1, 2)]
    assert first == again != other


async def test_partial_reports_list_only_changed_devices(make: Make, rig: Rig) -> None:
    driver = await running(make)
    async with rig.watch(driver) as stream:
        await stream.shows()
        await driver.stream_partial()
        await driver.inject("xid/95", "gpu-0")
        assert list(await stream.shows()) == ["gpu-0"]


async def test_stream_skew_shifts_the_reported_times(make: Make, rig: Rig) -> None:
    driver = await running(make, devices=("gpu-0",))
    async with rig.watch(driver) as stream:
        await stream.report()
        await driver.stream_skew(-300)
        await driver.report([DeviceHealth("node-a", "gpu-0", Health.HEALTHY, updated=1000)])
        assert [device.updated for device in await stream.report()] == [700]


async def test_reset_clears_all_faults(make: Make, rig: Rig) -> None:
    driver = await running(make)
    await driver.inject("xid/64", "gpu-0")
    await driver.stream_drop(1.0)
    await driver.stream_silence()
    await driver.reset()
    async with rig.watch(driver) as stream:
        assert await stream.shows() == {"gpu-0": "Healthy", "gpu-1": "Healthy"}
    assert (await driver.state()).faults == {}


async def test_heartbeat_can_change(make: Make, rig: Rig) -> None:
    driver = await running(make, heartbeat=3600.0)
    async with rig.watch(driver) as stream:
        await stream.shows()
        await driver.set_heartbeat(10)
        await settle()
        rig.clock.jump(11)
        assert await stream.shows() == {"gpu-0": "Healthy", "gpu-1": "Healthy"}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda driver: driver.inject("xid/97", "gpu-0"), "'xid/97'"),
        (lambda driver: driver.inject("xid/79", "gpu-9"), "'gpu-9'"),
        (lambda driver: driver.recover("gpu-rset"), "'gpu-rset'"),
        (lambda driver: driver.stream_restore("slow"), "'slow'"),
        (lambda driver: driver.stream_drop(1.5), "150%"),
        (lambda driver: driver.set_heartbeat(-1), "heartbeat"),
    ],
)
async def test_invalid_fault_command_is_rejected_and_changes_nothing(
    make: Make, call: Callable[[DriverControl], Awaitable[object]], words: str
) -> None:
    driver = await running(make)
    with pytest.raises(WRONG) as refused:
        await call(driver)
    assert words in str(refused.value)
    assert (await driver.state()).faults == {}


@pytest.mark.parametrize("options", [{"policy": "nvida"}, {"catalogue": "acme"}, {"devices": ("a/b", "a-b")}])
async def test_options_that_make_no_driver_are_refused(rig: Rig, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"unknown (policy|catalogue)|duplicate device name: a-b"):
        rig.options(**options)


@pytest.mark.parametrize("devices", ["all", "gpu-*", ("gpu-0", "gpu-1"), ("gpu-0", "gpu-*")])
async def test_several_devices_are_named_at_once(make: Make, devices: Devices) -> None:
    driver = await running(make)
    await driver.inject("xid/79", devices)
    assert (await driver.state()).faults == {"gpu-0": ("xid/79",), "gpu-1": ("xid/79",)}
    assert (await driver.recover("gpu-reset", devices)).left == ("xid/79 on gpu-0", "xid/79 on gpu-1")
    assert list(await driver.clear("xid/79", devices)) == ["gpu-0", "gpu-1"]
    await driver.set_health(devices, Health.UNKNOWN)
    assert {device.health for device in await driver.devices()} == {Health.UNKNOWN}
    await driver.taint(devices, "example.com/sick")
    assert set((await driver.state()).taints) == {"gpu-0", "gpu-1"}


async def test_command_to_several_devices_changes_all_or_none(make: Make) -> None:
    driver = await running(make)
    await driver.inject("xid/79", "gpu-1")
    for refused in (driver.inject("xid/79", "all"), driver.inject("xid/46", ("gpu-0", "gpu-9"))):
        with pytest.raises(WRONG):
            await refused
    with pytest.raises(WRONG):
        await driver.set_health(("gpu-0", "nic-*"), Health.UNKNOWN)
    assert (await driver.state()).faults == {"gpu-1": ("xid/79",)}
    assert (await driver.devices())[0].health is Health.HEALTHY
