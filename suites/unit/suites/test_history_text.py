"""The text of a history: one line for every kind of event."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drahealth.proto.events import (
    CheckpointWritten,
    CommandDone,
    ContainerSeen,
    DeviceChanged,
    DevicesListed,
    DeviceUnlisted,
    DriverServed,
    Event,
    EventSeen,
    GateSet,
    GrpcCall,
    PluginRegistered,
    Prepared,
    Registered,
    ReportReceived,
    ReportSent,
    ReportSummary,
    Restarted,
    StatusSeen,
    Step,
    StreamClosed,
    StreamOpened,
    TimePassed,
    TimeSkipped,
    Unprepared,
)
from drahealth.proto.events.text import format_event
from drahealth.proto.values import DeviceHealth, Health, PluginDevice
from drahealth.suites.judging.histories import format_history
from drahealth.suites.unit.suites.histories import container, entry, history, pod, report, resource, status

HOT = DeviceHealth("node-a", "gpu-0", Health.UNHEALTHY, "hot")
WELL = DeviceHealth("node-a", "gpu-1", Health.HEALTHY)
WAITING = ContainerSeen("main", "CrashLoopBackOff", 2, None)

LINES: list[tuple[Event, str]] = [
    (Step("driver d starts"), "# driver d starts"),
    (Registered("d", "", True), "d is registered"),
    (Registered("d", "b", False, "no such API"), "d (b) is not registered: no such API"),
    (StreamOpened("d", "b", "d#1", "v1.DRAResourceHealth"), "d (b): stream d#1 opened (v1.DRAResourceHealth)"),
    (StreamClosed("d", "", "d#1", "cancelled"), "d: stream d#1 closed: cancelled"),
    (ReportSent("d", "", "d#1", (HOT, WELL)), "d reports gpu-0 Unhealthy 'hot', gpu-1 Healthy"),
    (ReportSent("d", "", "d#1", (WELL,), complete=False), "d reports in part gpu-1 Healthy"),
    (ReportSent("d", "", "d#1", ()), "d reports nothing"),
    (DevicesListed("r", "", "r#1", (PluginDevice("0"), PluginDevice("1", "odd"))), "r lists 0 Healthy, 1 odd"),
    (DevicesListed("r", "b", "r#1", ()), "r (b) lists nothing"),
    (Prepared("d", "", "uid", ("gpu-0", "gpu-1")), "d prepared gpu-0, gpu-1 of claim uid"),
    (Prepared("d", "", "uid", ()), "d prepared no devices of claim uid"),
    (Unprepared("d", "b", "uid"), "d (b) unprepared claim uid"),
    (ReportSummary("d", 3, 0, "d#1", complete=True), "d reports 3 devices on d#1"),
    (ReportSummary("d", 3, 0, "d#1", complete=False), "d reports in part 3 devices on d#1"),
    (ReportSummary("d", 3, 0), "d reported 3 devices"),
    (DeviceChanged("d", "p/a", "Unknown", "x\x1b"), r"d: p/a is Unknown 'x\x1b'"),
    (DeviceUnlisted("d", "a"), "d no longer lists a"),
    (
        CommandDone("d", "inject", {"fault": "xid/79", "device": "gpu-0", "note": ""}),
        "d: command inject fault=xid/79 device=gpu-0",
    ),
    (DriverServed("d", "/s"), "serving: driver d, socket /s"),
    (GateSet("ResourceHealthStatus", False), "gate ResourceHealthStatus is off"),
    (GateSet("ResourceHealthStatus", True, True, True), "gate ResourceHealthStatus is on"),
    (
        GateSet("ResourceHealthStatus", False, True, False),
        "gate ResourceHealthStatus is on in the API server, off in the kubelet",
    ),
    (Restarted("kubelet"), "kubelet restarted"),
    (ReportReceived("d", "/d.sock", "kubelet#1", 40, (HOT,)), "kubelet received from d: gpu-0 Unhealthy 'hot'"),
    (GrpcCall("d", "/d.sock", "a.B/Prepare", {}, {}, 0.5), "kubelet called Prepare of d: OK after 0.5 s"),
    (
        GrpcCall("d", "/d.sock", "a.B/Prepare", {}, None, 45, "DEADLINE_EXCEEDED", "too slow"),
        "kubelet called Prepare of d: DEADLINE_EXCEEDED too slow after 45 s",
    ),
    (TimePassed(2.5), "2.5 s passed"),
    (TimePassed(30.900000000000002), "30.9 s passed"),
    (TimeSkipped(0.034499), "the timeline skipped 0.034 s without a change"),
    (
        CheckpointWritten("f", 1, 0.000455632000011974, True),
        "checkpoint-written: file f, size 1, seconds 0.000456, ok True",
    ),
    (StatusSeen("pod-1", "uid", "Pending", ()), f"{'':24}pod pod-1 Pending: "),
    (
        EventSeen("pod-1", "uid", "Warning", "DeviceUnhealthy", "Device d/p/gpu-0 is Unhealthy", 3),
        f"{'':24}event DeviceUnhealthy on pod pod-1: Device d/p/gpu-0 is Unhealthy (3 times)",
    ),
    (pod([WAITING]), f"{'':24}pod pod-1 Running: main CrashLoopBackOff after 2 restarts, no health"),
    (
        pod([container()], init=[container(name="first")], own=(entry(name="claim:c"),)),
        f"{'':24}pod pod-1 Running: first running, no entries; main running, no entries; used by none: claim:c []",
    ),
    (pod([container()]), f"{'':24}pod pod-1 Running: main running, no entries"),
    (
        pod([container(entry(resource(Health.UNHEALTHY, "hot"), name="claim:c"))]),
        f"{'':24}pod pod-1 Running: main running, claim:c [gpu.example.com/node-a/gpu-0=Unhealthy 'hot']",
    ),
]


@pytest.mark.parametrize(("event", "line"), LINES)
def test_an_event_is_one_line(event: Event, line: str) -> None:
    assert format_event(event) == line


def test_an_event_without_a_format_shows_its_fields() -> None:
    assert format_event(PluginRegistered("d", "/d.sock", None)) == "plugin-registered: driver d, endpoint /d.sock"


def test_times_are_seconds_since_the_first_event() -> None:
    assert format_history(history(Step("one"), 2, Step("two"))) == "   0.000 s  # one\n   2.010 s  # two"


def test_an_empty_history_has_a_line() -> None:
    assert format_history([]) == "nothing happened"


def test_the_middle_of_a_long_history_is_omitted() -> None:
    lines = format_history(history(*(Step(str(number)) for number in range(500)))).split("\n")
    assert len(lines) == 121
    assert [lines[59].split()[-1], lines[60].strip(), lines[61].split()[-1]] == ["59", "... 380 more ...", "440"]


def test_a_short_history_is_complete() -> None:
    lines = format_history(history(*(Step(str(number)) for number in range(120)))).split("\n")
    assert [line.split()[-1] for line in lines] == [str(number) for number in range(120)]


def test_a_long_message_is_shortened_in_reports_and_statuses() -> None:
    long = "x" * 41
    assert "x" * 38 not in format_event(report(Health.UNHEALTHY, long)) + format_event(status(Health.UNHEALTHY, long))
    assert "'" + "x" * 37 + "...'" in format_event(status(Health.UNHEALTHY, long))


ODD = st.text(st.characters(), max_size=50)


@given(ODD)
def test_an_event_is_one_printable_line_with_any_text(text: str) -> None:
    events: list[Event] = [
        Step(text),
        Registered(text, text, False, text),
        StreamClosed(text, text, text, text),
        report(Health.UNHEALTHY, text),
        DevicesListed(text, text, text, (PluginDevice(text, text),)),
        Prepared(text, text, text, (text,)),
        replace(pod([replace(WAITING, name=text, state=text)]), pod=text, phase=text),
        status(Health.UNHEALTHY, text, device=text),
    ]
    assert all(format_event(event).isprintable() for event in events)
    assert len(format_history(history(*events)).splitlines()) == len(events)


def test_unprintable_characters_are_escaped() -> None:
    assert format_event(Registered("d", "", False, "no\nway\x1b[31m")) == r"d is not registered: no\nway\x1b[31m"
