"""The lanes over time: health, late stretches, Pod statuses, and the order of devices."""

import pytest

from drahealth.proto.events import (
    ContainerSeen,
    Event,
    ExperimentStarted,
    FaultCleared,
    FaultInjected,
    ListReceived,
    PodDeleted,
    ReportReceived,
    SignalSent,
    StatusSeen,
    StreamClosed,
    StreamOpened,
)
from drahealth.proto.health_apis import NODE_HEALTH_DRAFT, V1, HealthApi
from drahealth.proto.values import DeviceHealth, Health, PluginDevice, ResourceHealth, ResourceStatus
from drahealth.suites.driver_checks.evidence import Evidence
from drahealth.suites.driver_checks.observed_health import OURS
from drahealth.suites.report.lanes import LANES, Lanes, Mark, lanes_of
from drahealth.suites.unit.driver_checks.evidence_of import evidence_at
from drahealth.suites.unit.driver_checks.healthy_run import CHANGE, RECOVERY, healthy_run

HEALTHY, UNHEALTHY = Health.HEALTHY, Health.UNHEALTHY
Record = tuple[float, str, Event]


def report(at: float, *devices: str, health: Health = HEALTHY, timeout: int = 30, message: str = "") -> Record:
    reported = tuple(DeviceHealth("pool", name, health, message, timeout) for name in devices)
    return at, "watch", ReportReceived("gpu.example.com", "", "s", 9, reported)


def watch(*reports: Record, end: float = 40, api: HealthApi = V1) -> tuple[Record, ...]:
    """A stream from 0 s on."""
    opened = StreamOpened("gpu.example.com", "", "s", api.name)
    closed = StreamClosed("gpu.example.com", "", "s", OURS, "", "CANCELLED")
    return (0, "watch", ExperimentStarted("main")), (0, "watch", opened), *reports, (end, "watch", closed)


def spans(lanes: Lanes, device: str) -> list[tuple[float, float, Health]]:
    """Those of the device's first bar."""
    (bar, *_) = next(lane.bars for group in lanes for lane in group.lanes if lane.name == device)
    return [(span.start, span.end, span.health) for span in bar.spans]


def run(*records: Record) -> Evidence:
    return evidence_at(*records)


def test_health_lasts_until_the_next_report() -> None:
    lanes = lanes_of(run(*watch(report(1, "a"), report(5, "a", health=UNHEALTHY), report(9, "a"))))
    assert spans(lanes, "pool/a") == [(1, 5, HEALTHY), (5, 9, UNHEALTHY), (9, 40, HEALTHY)]


def test_equal_reports_are_one_span_with_two_ticks() -> None:
    lanes = lanes_of(run(*watch(report(1, "a"), report(5, "a"))))
    (bar,) = lanes[0].lanes[0].bars
    assert (len(bar.spans), bar.ticks) == (1, (1, 5))


@pytest.mark.parametrize(("timeout", "late"), [(30, [(31, 33), (63, 70)]), (0, [(31, 33), (63, 70)]), (60, [])])
def test_time_after_the_timeout_is_late(timeout: int, late: list[tuple[float, float]]) -> None:
    reports = (report(at, "a", timeout=timeout) for at in (1, 33))
    (bar,) = lanes_of(run(*watch(*reports, end=70)))[0].lanes[0].bars
    assert [(one.start, one.end) for one in bar.late] == late


def test_device_without_a_claim_is_not_late_in_the_first_draft() -> None:
    lanes = lanes_of(run(*watch(report(1, "a"), report(5), end=70, api=NODE_HEALTH_DRAFT)))
    (bar,) = lanes[0].lanes[0].bars
    assert (spans(lanes, "pool/a"), bar.late) == ([(1, 5, HEALTHY)], ())


def test_devices_with_findings_come_first_then_those_with_events() -> None:
    lanes = lanes_of(run(*watch(report(1, "a", "b", "c"), report(5, "b", health=UNHEALTHY), end=20)), ["pool/c: wrong"])
    assert [lane.name for lane in lanes[0].lanes] == ["pool/c", "pool/b", "pool/a"]


def test_devices_beyond_the_lane_limit_are_counted() -> None:
    names = [f"d{number}" for number in range(LANES + 7)]
    (group,) = lanes_of(run(*watch(report(1, *names))), ["d46 has no pool"])
    assert (len(group.lanes), group.left_out, group.lanes[0].name) == (LANES, 7, "pool/d46")


@pytest.mark.parametrize("resource", ["gpu.example.com/pool/a", "example.com/gpu=a"])
def test_pod_status_is_a_bar_of_its_device(resource: str) -> None:
    shown = ResourceStatus("claim:gpu", (ResourceHealth(resource, UNHEALTHY, "XID 79"),))
    status = StatusSeen("pod-1", "uid", "Running", (ContainerSeen("main", "running", 0, (shown,)),))
    lanes = lanes_of(run(*watch(report(1, "a")), (2, "watch", status)))
    (lane,) = lanes[0].lanes
    assert [bar.source for bar in lane.bars] == [
        "v1.DRAResourceHealth, stream s",
        "status of Pod pod-1, container main",
    ]
    assert lane.bars[1].spans[0].message == "XID 79"


def test_health_in_a_pod_status_ends_with_the_pod() -> None:
    shown = ResourceStatus("claim:gpu", (ResourceHealth("gpu.example.com/pool/a", UNHEALTHY),))
    status = StatusSeen("pod-1", "uid", "Running", (ContainerSeen("main", "running", 0, (shown,)),))
    lanes = lanes_of(run((2, "pod", status), (6, "pod", PodDeleted("pod-1", "uid", "")), *watch(end=20)))
    assert spans(lanes, "gpu.example.com/pool/a") == [(2, 6, UNHEALTHY)]


def test_device_that_vanishes_from_a_device_plugins_list_has_no_health() -> None:
    lists = [("a", "b"), ("a",)]
    records = [
        (float(at), "list", ListReceived("r", "", "s", 9, tuple(PluginDevice(name, "Healthy") for name in names)))
        for at, names in enumerate(lists, start=1)
    ]
    lanes = lanes_of(run(*records))
    assert (spans(lanes, "a"), spans(lanes, "b")) == ([(1, 2, HEALTHY)], [(1, 2, HEALTHY)])


def test_fault_list_and_pod_status_of_a_device_plugin_share_a_lane() -> None:
    shown = ResourceStatus("example.com/gpu", (ResourceHealth("a", UNHEALTHY),))
    status = StatusSeen("pod-1", "uid", "Running", (ContainerSeen("main", "running", 0, (shown,)),))
    resource, device = "example.com/gpu", PluginDevice("a")
    injected = FaultInjected("main", "hot", "break", resource, "a", "write f", "forced", "Unhealthy", 1, "done", 0.1)
    listed, started = ListReceived(resource, "", "s", 9, (device,)), ExperimentStarted("main")
    lanes = lanes_of(run((0, "pod", started), (1, "pod", listed), (2, "pod", injected), (3, "pod", status)))
    ((lane,),) = (group.lanes for group in lanes)
    assert (lane.name, len(lane.bars)) == ("example.com/gpu/a", 3)


@pytest.mark.parametrize(("health", "bars"), [(HEALTHY, 0), (UNHEALTHY, 1)])
def test_short_stream_has_bars_only_for_unhealthy_devices(health: Health, bars: int) -> None:
    (group, *_) = (*lanes_of(run(*watch(report(0.1, "a", health=health), end=0.3))), None)
    assert len(group.lanes if group else ()) == bars


def test_each_process_has_its_own_times() -> None:
    (group,) = lanes_of(run(*watch(report(21, "a"), end=30), (20, "watch", SignalSent("main", "SIGTERM"))))
    assert group.times == (20, 30)


def test_fault_is_a_bar_of_its_device_and_marks_of_its_process() -> None:
    injected = FaultInjected("main", "cable", "break", "pool", "b", "write x", "forced", "Unhealthy", 2, "done", 0.1)
    cleared = FaultCleared("main", "cable", "pool", "b", "remove x", 2, "done", 0.1)
    lanes = lanes_of(run(*watch(report(1, "a", "b"), end=20), (5, "watch", injected), (9, "watch", cleared)))
    (group,) = lanes
    (stretch,) = group.lanes[0].bars[0].faults
    assert (group.lanes[0].name, stretch.start, stretch.end) == ("pool/b", 5, 9)
    assert [(mark.at, mark.kind) for mark in group.marks] == [(5, "fault"), (9, "cleared")]


def test_signals_are_marks_of_their_process() -> None:
    (group,) = lanes_of(run((0, "end", ExperimentStarted("main")), (3, "end", SignalSent("main", "SIGTERM"))))
    assert (group.process, group.marks) == ("main", (Mark(3, "process", "SIGTERM sent"),))


def test_lanes_of_a_whole_run_show_the_change_of_health() -> None:
    lanes = lanes_of(healthy_run())
    assert [(start, end) for start, end, health in spans(lanes, "node-a/gpu-0") if health == UNHEALTHY] == [
        (CHANGE, RECOVERY)
    ]
