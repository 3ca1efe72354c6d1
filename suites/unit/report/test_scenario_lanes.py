"""The lanes of scenarios: the kubelet's side, jumps of the clock, streams that follow one another, side by side."""

from dataclasses import replace
from pathlib import Path

import pytest

from drahealth.proto.events import (
    DevicesListed,
    ListReceived,
    Record,
    ReportReceived,
    Step,
    StreamOpened,
    TimePassed,
)
from drahealth.proto.values import DeviceHealth, Health, PluginDevice, ResourceHealth
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.report.lanes import Bar, Group, scenario_group
from drahealth.suites.report.page import ROWS, page_of, scenario_table
from drahealth.suites.report.result_files import read_files
from drahealth.suites.unit.report.html_parts import Parts
from drahealth.suites.unit.report.recorded_runs import as_file, write_run
from drahealth.suites.unit.suites.histories import (
    DRIVER,
    closed,
    container,
    entry,
    history,
    opened,
    pod,
    report,
    status,
)

HEALTHY, UNHEALTHY, UNKNOWN = Health.HEALTHY, Health.UNHEALTHY, Health.UNKNOWN
RESOURCE = "a.example.com/gpu"
SEEN = StreamOpened(DRIVER, "", "kubelet#1", "v1.DRAResourceHealth", "/d.sock")


def group(*happened: object) -> Group:
    return scenario_group(as_file(history(*happened)))  # type: ignore[arg-type]


def spans(bar: Bar) -> list[tuple[float, float, Health]]:
    return [(round(span.start, 1), round(span.end, 1), span.health) for span in bar.spans]


def test_lane_has_the_reports_and_the_statuses_of_a_device() -> None:
    found = group(opened(), report(), status(), 1, report(UNHEALTHY), 1, status(UNHEALTHY), 1, Step("the end"))
    (lane,) = found.lanes
    assert (lane.name, [bar.source for bar in lane.bars]) == (
        "gpu node-a/gpu-0",
        ["v1.DRAResourceHealth", "status of Pod pod-1, container main"],
    )
    assert [spans(bar) for bar in lane.bars] == [
        [(0.0, 1.0, HEALTHY), (1.0, 3.0, UNHEALTHY)],
        [(0.0, 2.0, HEALTHY), (2.0, 3.0, UNHEALTHY)],
    ]


def test_device_is_late_on_the_clock_of_the_node() -> None:
    found = group(opened(), report(timeout=2), Step("silenced"), TimePassed(8), status(UNKNOWN))
    (late,) = found.lanes[0].bars[0].late
    assert (round(late.start, 1), round(late.end, 1)) == (2.0, 8.0)
    assert [mark.kind for mark in found.marks] == ["step", "step"]


def test_lane_uses_the_kubelet_records_if_both_sides_are_recorded() -> None:
    received = ReportReceived(DRIVER, "/d.sock", "kubelet#1", 9, (DeviceHealth("node-a", "gpu-0", UNHEALTHY),))
    (lane,) = group(SEEN, opened(), report(), 5, received, 5, Step("the end")).lanes
    assert [spans(bar) for bar in lane.bars] == [[(5.0, 10.0, UNHEALTHY)]]


def test_streams_that_follow_one_another_share_a_bar() -> None:
    first, second = (opened("a"), report(stream="a"), 1, closed("a")), (opened("b"), report(stream="b"), 1, closed("b"))
    (lane,) = group(*first, 1, *second).lanes
    assert [spans(bar) for bar in lane.bars] == [[(0.0, 1.0, HEALTHY), (2.0, 3.0, HEALTHY)]]


def test_streams_at_once_have_a_bar_each() -> None:
    both = (opened("a"), opened("b"), report(stream="a"), report(stream="b"), 1, closed("a"), closed("b"))
    assert [bar.source for bar in group(*both).lanes[0].bars] == ["v1.DRAResourceHealth"] * 2


def test_devices_of_two_drivers_with_the_same_name_have_a_lane_each() -> None:
    other = "net.example.com"
    second = replace(opened("s2"), driver=other), replace(report(UNHEALTHY, stream="s2"), driver=other)
    found = group(opened(), report(), *second, 1, status())
    assert [lane.name for lane in found.lanes] == ["net node-a/gpu-0", "gpu node-a/gpu-0"]


@pytest.mark.parametrize("received", [True, False])
def test_device_of_a_device_plugin_has_its_list_and_its_status(received: bool) -> None:
    devices = (PluginDevice("gpu-0", "Unhealthy"),)
    listed = ListReceived(RESOURCE, "/p", "l", 9, devices) if received else DevicesListed(RESOURCE, "", "l", devices)
    shown = pod([container(entry(ResourceHealth("gpu-0", UNHEALTHY, ""), name=RESOURCE))])
    (lane,) = group(listed, shown, 1, Step("the end")).lanes
    assert (lane.name, [bar.source for bar in lane.bars]) == (
        "a gpu-0",
        ["ListAndWatch", "status of Pod pod-1, container main"],
    )


def test_history_without_records_has_no_lanes() -> None:
    assert group().lanes == ()


# -- on the page


def page(*paths: Path) -> str:
    return page_of(read_files(paths).columns())


def changing() -> list[Record]:
    return history(opened(), report(), status(), 1, report(UNHEALTHY, "hot"), status(UNHEALTHY, "hot"), 1, closed())


def test_runs_show_each_scenario_side_by_side(tmp_path: Path) -> None:
    kep = write_run(tmp_path / "kep.json", {"test_a": changing(), "test_b": changing()})
    old = write_run(tmp_path / "old.json", {"test_b": history(opened(), report(), 1, closed())}, "known issue")
    parts = Parts(page(kep, old))
    folds = parts.of("details", "scenario")
    assert [fold.text.split("✓")[0].strip() for fold in folds] == ["test b", "test a"]
    assert [len(parts.of("div", "cell")), "open" in folds[0].attributes] == [4, True]
    assert parts.of("section", "over-time") == []


def test_run_without_histories_gives_the_reason_for_missing_lanes(tmp_path: Path) -> None:
    path = write_run(tmp_path / "kep.json", {"test_a": changing()})
    (tmp_path / "kep" / "test_a.jsonl").unlink()
    (result,) = read_files([path]).columns()
    assert (result.has_histories, "not there" in result.why_no_lanes) == (False, True)


@pytest.mark.parametrize("edit", [lambda data: data.replace(b"hot", b"hit"), lambda data: data[:-9], lambda _: b""])
def test_history_of_another_run_is_rejected(tmp_path: Path, edit: object) -> None:
    path = write_run(tmp_path / "kep.json", {"test_a": changing()})
    file = tmp_path / "kep" / "test_a.jsonl"
    file.write_bytes(edit(file.read_bytes()))  # type: ignore[operator]
    with pytest.raises(ConfigurationError, match=r"test_a\.jsonl"):
        read_files([path])


def test_page_of_many_scenarios_with_many_reports_is_not_too_large(tmp_path: Path) -> None:
    events: list[object] = [opened()]
    for number in range(400):
        events += [report(UNHEALTHY if number % 2 else HEALTHY, f"message {number}"), 1]
    long = history(*events)  # type: ignore[arg-type]
    path = write_run(tmp_path / "run.json", {f"test_{number}": long for number in range(ROWS + 3)})
    (result,) = read_files([path]).columns()
    assert (len(page_of([result])) < 4_000_000, scenario_table([result]).left_out) == (True, 3)
