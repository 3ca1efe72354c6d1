"""The reports of a fake driver on its health streams, and their end, in this process and over a stream."""

from dataclasses import replace

import grpc
import pytest

from drahealth.fakes.control.fake_options import DriverControl
from drahealth.proto.events import ReportSent, StreamClosed, StreamOpened
from drahealth.proto.values import DeviceHealth, Health, Report
from drahealth.suites.unit.expected_errors import rpc_error
from drahealth.suites.unit.fakes.conftest import Make
from drahealth.suites.unit.fakes.driver_rig import Rig, says

HEALTHY, UNHEALTHY = Health.HEALTHY, Health.UNHEALTHY


def undated(report: Report) -> Report:
    """The report without its times."""
    return tuple(replace(device, updated=0) for device in report)


# -- reports


async def test_a_new_stream_begins_with_a_complete_report(driver: DriverControl, rig: Rig) -> None:
    async with rig.watch(driver) as stream:
        assert undated(await stream.report()) == (says("gpu-0"), says("gpu-1"))
    await rig.closed(driver)
    opened, sent = rig.happened(StreamOpened)[0], rig.happened(ReportSent)[0]
    assert (opened.health_api, sent.stream, undated(sent.devices)) == (
        "v1.DRAResourceHealth",
        opened.stream,
        (says("gpu-0"), says("gpu-1")),
    )


@pytest.mark.counterpart("TestHealthServerBridge")
async def test_change_is_reported_at_once_on_every_stream(driver: DriverControl, rig: Rig) -> None:
    async with rig.watch(driver) as first, rig.watch(driver) as second:
        await driver.set_health("gpu-1", UNHEALTHY, "xid 79", timeout=7)
        for stream in (first, second):
            await stream.report()
            assert await stream.shows() == {"gpu-0": "Healthy", "gpu-1": "Unhealthy: xid 79"}
    async with rig.watch(driver) as third:
        assert [(d.health, d.timeout) for d in await third.report()] == [(HEALTHY, 0), (UNHEALTHY, 7)]


async def test_health_change_keeps_the_timeout_and_has_the_current_time(make: Make, rig: Rig) -> None:
    driver = await make(timeout=60)
    began = int(rig.clock.wall())
    rig.clock.jump(10**6)
    before = int(rig.clock.wall())
    await driver.set_health("gpu-0", UNHEALTHY)
    await driver.start()
    async with rig.watch(driver) as stream:
        sick, well = await stream.report()
    assert (sick.timeout, well.timeout) == (60, 60)
    assert 0 < well.updated <= began
    assert before <= sick.updated <= before + 5


async def test_health_survives_a_driver_restart(driver: DriverControl, rig: Rig) -> None:
    await driver.set_health("gpu-0", UNHEALTHY)
    await driver.crash()
    await driver.start()
    async with rig.watch(driver) as stream:
        assert await stream.shows() == {"gpu-0": "Unhealthy", "gpu-1": "Healthy"}


async def test_played_changes_are_reported_one_by_one(driver: DriverControl, rig: Rig) -> None:
    async with rig.watch(driver) as stream:
        await driver.play(
            [says("gpu-0", UNHEALTHY), says("gpu-1", UNHEALTHY, updated=7), says("gpu-0", message="back")]
        )
        assert [await stream.shows() for _ in range(4)] == [
            {"gpu-0": "Healthy", "gpu-1": "Healthy"},
            {"gpu-0": "Unhealthy", "gpu-1": "Healthy"},
            {"gpu-0": "Unhealthy", "gpu-1": "Unhealthy"},
            {"gpu-0": "Healthy: back", "gpu-1": "Unhealthy"},
        ]


async def test_explicit_report_is_sent_unchanged_and_not_stored(driver: DriverControl, rig: Rig) -> None:
    odd = DeviceHealth("", "no such device", UNHEALTHY, "odd", timeout=-1, updated=-1)
    async with rig.watch(driver) as stream:
        await driver.report([odd])
        await driver.report([])
        await driver.set_health("gpu-0", UNHEALTHY)
        complete, *explicit = [await stream.report() for _ in range(3)]
        assert (undated(complete), explicit) == ((says("gpu-0"), says("gpu-1")), [(odd,), ()])
        assert await stream.shows() == {"gpu-0": "Unhealthy", "gpu-1": "Healthy"}
    await rig.closed(driver)
    assert [event.complete for event in rig.happened(ReportSent)] == [True, False, False, True]


async def test_silenced_driver_sends_only_explicit_reports(make: Make, rig: Rig) -> None:
    driver = await make(heartbeat=10.0)
    await driver.start()
    await driver.stream_silence()
    async with rig.watch(driver) as stream:
        await driver.set_health("gpu-0", UNHEALTHY)
        rig.clock.jump(10)
        await driver.report([says("gpu-1")])
        assert await stream.report() == (says("gpu-1"),)
        await driver.stream_restore("silence")
        rig.clock.jump(10)
        assert await stream.shows() == {"gpu-0": "Unhealthy", "gpu-1": "Healthy"}


async def test_heartbeats_follow_the_clock(make: Make, rig: Rig) -> None:
    driver = await make(heartbeat=10.0)
    await driver.start()
    async with rig.watch(driver) as stream:
        await stream.report()
        for _ in range(3):
            rig.clock.jump(9)
            await driver.report([])
            rig.clock.jump(1)
            assert [len(await stream.report()) for _ in range(2)] == [0, 2]


async def test_raw_bytes_are_sent_as_they_are(driver: DriverControl, rig: Rig) -> None:
    async with rig.watch(driver) as stream:
        await stream.report()
        await driver.stream_send("0aff")
        assert await stream.raw() == b"\x0a\xff"


# -- how streams end


async def test_streams_end_with_ok_by_default(driver: DriverControl, rig: Rig) -> None:
    async with rig.watch(driver) as stream:
        await stream.report()
        await driver.stream_close()
        with pytest.raises(StopAsyncIteration):
            await stream.raw()
    await rig.closed(driver)
    assert [event.why for event in rig.happened(StreamClosed)] == ["ended by the driver with OK"]


async def test_streams_end_with_the_given_code_after_pending_reports(driver: DriverControl, rig: Rig) -> None:
    async with rig.watch(driver) as stream:
        await driver.set_health("gpu-0", UNHEALTHY)
        await driver.stream_close("RESOURCE_EXHAUSTED")
        assert len([await stream.report() for _ in range(2)]) == 2
        with rpc_error(grpc.StatusCode.RESOURCE_EXHAUSTED):
            await stream.raw()
    await rig.closed(driver)
    assert [event.why for event in rig.happened(StreamClosed)] == ["ended by the driver with RESOURCE_EXHAUSTED"]


@pytest.mark.parametrize("end", ["stop", "crash"])
async def test_streams_end_with_the_driver(driver: DriverControl, rig: Rig, end: str) -> None:
    async with rig.watch(driver) as stream:
        await stream.report()
        await getattr(driver, end)()
        with pytest.raises(grpc.aio.AioRpcError):
            await stream.raw()
    await rig.closed(driver)
    assert len(rig.happened(StreamClosed)) == 1


async def test_a_kubelet_that_hangs_up_closes_the_stream(driver: DriverControl, rig: Rig) -> None:
    async with rig.watch(driver) as stream:
        await stream.report()
    await rig.closed(driver)
    assert [event.why for event in rig.happened(StreamClosed)] == ["cancelled by the kubelet, or the connection ended"]
