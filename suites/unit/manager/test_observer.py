"""The events that the manager emits."""

from pathlib import Path
from typing import TypeVar

from drahealth.manager.cache import Reading
from drahealth.manager.checkpoint import CLAIMS_FILE, HEALTH_FILE, Checkpoint
from drahealth.proto.events import (
    IN_FULL,
    CheckpointWritten,
    DeviceChanged,
    Event,
    PluginDeregistered,
    PluginRegistered,
    PodsNotified,
    ReportSummary,
    StreamClosed,
    StreamOpened,
)
from drahealth.proto.values import DeviceId, Health
from drahealth.suites.unit.manager.rig import DRIVER, Node, until

V1 = "v1.DRAResourceHealth"
GPU = DeviceId(DRIVER, "node-a", "gpu-0")
E = TypeVar("E", bound=Event)


def seen(node: Node, kind: type[E]) -> list[E]:
    return [event for event in node.observed if isinstance(event, kind)]


async def test_plugin_events_run_from_registration_to_deregistration(node: Node) -> None:
    driver = await node.run_driver()
    await until(lambda: seen(node, StreamOpened))
    await driver.stop()
    await until(lambda: seen(node, PluginDeregistered))
    where = (DRIVER, str(driver.endpoint))
    told = [e for e in node.observed if not isinstance(e, (*IN_FULL, CheckpointWritten, ReportSummary, DeviceChanged))]
    opened, closed = seen(node, StreamOpened)[0], seen(node, StreamClosed)[0]
    assert told == [PluginRegistered(*where, V1), opened, closed, PluginDeregistered(*where)]
    assert (opened.driver, opened.endpoint, opened.health_api, opened.stream) == (*where, V1, closed.stream)


async def test_report_emits_summary_changed_devices_and_notified_pods(node: Node) -> None:
    driver = await node.run_driver(devices=("gpu-0", "gpu-1"))
    await node.run_pod("pod", await node.claim("gpu", "gpu-0"))
    await node.shows("pod", gpu_0="Healthy")
    node.observed.clear()
    await driver.set_health("gpu-0", Health.UNHEALTHY, "xid 79")
    await node.shows("pod", gpu_0="Unhealthy: xid 79")
    assert [event for event in node.observed if not isinstance(event, (*IN_FULL, CheckpointWritten))] == [
        ReportSummary(DRIVER, 2, 1),
        DeviceChanged(DRIVER, "node-a/gpu-0", "Unhealthy", "xid 79"),
        PodsNotified(("pod",)),
    ]


async def test_every_opened_stream_emits_a_stream_closed_event(node: Node) -> None:
    driver = await node.run_driver()

    def balance() -> int:
        return len(seen(node, StreamOpened)) - len(seen(node, StreamClosed))

    for code in ("OK", "INTERNAL", "UNIMPLEMENTED"):
        await node.after_jumps(lambda: balance() == 1 and driver.health.open == 1)
        await driver.stream_close(code)
        await until(lambda: balance() == 0)
    whys = [event.why.partition(":")[0] for event in seen(node, StreamClosed)]
    assert whys == ["ended by the plugin", "INTERNAL", "not implemented"]
    assert [event.code for event in seen(node, StreamClosed)] == ["OK", "INTERNAL", "UNIMPLEMENTED"]


async def test_checkpoint_write_emits_an_event_with_its_size(node: Node) -> None:
    await node.run_driver()
    await node.run_pod("pod", await node.claim("gpu", "gpu-0"))
    await until(lambda: {event.file for event in seen(node, CheckpointWritten)} == {HEALTH_FILE, CLAIMS_FILE})
    last = seen(node, CheckpointWritten)[-1]
    assert (last.size, last.ok) == ((node.root / last.file).stat().st_size, True)
    assert 0 < last.seconds < 5


def test_failed_checkpoint_write_emits_an_event_with_ok_false(tmp_path: Path) -> None:
    told: list[Event] = []
    Checkpoint(tmp_path / "none" / "file", told.append).write({})
    assert [(event.file, event.ok) for event in told if isinstance(event, CheckpointWritten)] == [("file", False)]


async def test_devices_are_returned_with_their_age(node: Node) -> None:
    driver = await node.run_driver(devices=("gpu-0",), timeout=30)
    await until(lambda: seen(node, ReportSummary))
    await driver.stream_silence()
    await node.jump(31)
    (device,) = node.manager.devices()
    assert (device.id, device.reading, device.age, device.stale) == (GPU, Reading(Health.UNKNOWN), 31, True)
