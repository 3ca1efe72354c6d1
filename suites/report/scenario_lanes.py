"""The lanes of a scenario: the health of each device over time, from its recorded history. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from drahealth.proto.clock import format_seconds
from drahealth.proto.events import (
    DevicesListed,
    Event,
    GrpcCall,
    ListReceived,
    MalformedReceived,
    Record,
    ReportReceived,
    ReportSent,
    StatusSeen,
    Step,
    StreamClosed,
    StreamOpened,
    TimePassed,
    TimeSkipped,
)
from drahealth.proto.history import HistoryFile
from drahealth.suites.driver_checks.evidence import Evidence, Header, Observation
from drahealth.suites.driver_checks.observed_health import streams
from drahealth.suites.judging.histories import devices_in
from drahealth.suites.judging.invariants import name_in
from drahealth.suites.report.lanes import (
    Bar,
    Group,
    Lane,
    Mark,
    States,
    bars_of,
    call_mark,
    list_bars,
    merged,
    state_bars,
)

_LANES = 4
"""The most lanes of a scenario; those that change come first."""
_BARS = 8
"""The most bars of a lane."""
_MARKS = 60
"""The most marks of a scenario."""
_SCENARIO = "scenario"
_Key = tuple[str, str]
"""A driver, or the resource of a device plugin, and its device."""


def scenario_group(history: HistoryFile) -> Group:
    """The lanes of the devices of all drivers, and what the scenario did. Times begin with the scenario."""
    records = _on_the_clock_of_the_node(history.records)
    found: dict[_Key, list[Bar]] = {}
    for driver, evidence in _drivers(records).items():
        for device, bar in _reported(evidence):
            found.setdefault((driver, device), []).append(bar)
    for key, bar in _statuses(records):
        found.setdefault(key, []).append(bar)
    names = {driver: _short(driver, {driver for driver, _ in found}) for driver, _ in found}
    lanes = [Lane(f"{names[driver]} {device}".strip(), tuple(bars[:_BARS])) for (driver, device), bars in found.items()]
    lanes.sort(key=lambda lane: not lane.is_eventful)
    return Group("", tuple(lanes[:_LANES]), tuple(_marks(records))[:_MARKS], max(0, len(lanes) - _LANES))


def _on_the_clock_of_the_node(records: Sequence[Record]) -> list[Record]:
    """The records from time 0 on, with the jumps of the clock of the node."""
    found, shift = [], -records[0].at if records else 0.0
    for record in records:
        if isinstance(record.what, TimePassed):
            shift += record.what.seconds
        found.append(replace(record, at=record.at + shift))
    return found


def _drivers(records: Sequence[Record]) -> dict[str, Evidence]:
    """The streams of each driver as evidence: as the kubelet saw them, otherwise as the driver recorded them."""
    seen = {one.what.driver for one in records if isinstance(one.what, ReportReceived | ListReceived)}
    found: dict[str, list[Observation[Event]]] = {}
    for number, record in enumerate(records, start=1):
        what = record.what
        if isinstance(what, StreamOpened | StreamClosed) and bool(what.endpoint) == (what.driver in seen):
            pass
        elif isinstance(what, ReportSent) and what.driver not in seen:
            what = ReportReceived(what.driver, "", what.stream, 0, what.devices)
        elif isinstance(what, DevicesListed) and what.driver not in seen:
            what = ListReceived(what.driver, "", what.stream, 0, what.devices)
        elif not isinstance(what, ReportReceived | ListReceived):
            continue
        found.setdefault(what.driver, []).append(Observation(number, record.at, _SCENARIO, what))
    end = records[-1].at if records else 0.0
    return {driver: _evidence(driver, each, end) for driver, each in found.items()}


def _evidence(driver: str, observations: list[Observation[Event]], end: float) -> Evidence:
    """The evidence of one driver. A stream that is still open ends with the scenario."""
    opened = {one.what.stream for one in observations if isinstance(one.what, StreamOpened)}
    opened -= {one.what.stream for one in observations if isinstance(one.what, StreamClosed)}
    ends: Iterator[Event] = (StreamClosed(driver, "", stream, "the scenario ended") for stream in sorted(opened))
    closed = (Observation(0, end, _SCENARIO, one) for one in ends)
    header = Header(drahealth="", started="", command=(), api_server="", node="", experiments=(_SCENARIO,))
    return Evidence(header, (*observations, *closed))


def _reported(evidence: Evidence) -> Iterator[tuple[str, Bar]]:
    """The bars of health streams and of lists. Streams of an API that follow one another share a bar."""
    rows: dict[tuple[str, str], list[Bar]] = {}
    for stream in streams(evidence):
        for device, bar in bars_of(stream):
            _place(replace(bar, source=stream.api.name), rows.setdefault((device, stream.api.name), []))
    for _, device, bar in list_bars(evidence):
        _place(replace(bar, source="ListAndWatch"), rows.setdefault((device, ""), []))
    return ((device, bar) for (device, _), bars in rows.items() for bar in bars)


def _place(bar: Bar, row: list[Bar]) -> None:
    """Appends the bar to one that has ended before it, or adds it."""
    for number, other in enumerate(row):
        if bar.spans and other.spans and other.spans[-1].end <= bar.spans[0].start:
            spans = tuple(merged((*other.spans, *bar.spans)))
            row[number] = Bar(other.source, spans, (*other.ticks, *bar.ticks), (*other.late, *bar.late))
            return
    row.append(bar)


def _statuses(records: Sequence[Record]) -> Iterator[tuple[_Key, Bar]]:
    """The bars of Pod statuses, each with its device; with the ID of the status if no driver reported such a device."""
    devices = devices_in(records).items()
    known = {name: (driver, f"{pool}/{device}" if pool else device) for name, [(driver, pool, device), *_] in devices}
    found: dict[tuple[str, str], States] = {}
    for record in records:
        if isinstance(record.what, StatusSeen):
            for container, entries in record.what.entries():
                shown = {
                    name_in(entry.name, one.resource_id): (one.health, one.message)
                    for entry in entries
                    for one in entry.resources
                }
                if shown or (record.what.pod, container) in found:
                    found.setdefault((record.what.pod, container), []).append((record.at, shown))
    for (pod, container), states in found.items():
        source = f"status of Pod {pod}" + (f", container {container}" if container else "")
        for name, bar in state_bars(source, states, records[-1].at):
            yield known.get(name, ("", name)), bar


def _short(driver: str, others: Iterable[str]) -> str:
    """The first label of a driver's name, which scenarios make unique by a random one; the whole name if it is not."""
    label = driver.partition(".")[0]
    return label if sum(one.partition(".")[0] == label for one in others) == 1 else driver


def _marks(records: Sequence[Record]) -> Iterator[Mark]:
    for record in records:
        match record.what:
            case Step(text=text):
                yield Mark(record.at, "step", text)
            case TimePassed(seconds=seconds):
                yield Mark(record.at, "step", f"the clock of the node advances by {format_seconds(seconds)}")
            case TimeSkipped(seconds=seconds):
                yield Mark(record.at, "step", f"the timeline skips {format_seconds(seconds)} without a change")
            case MalformedReceived(stream=stream):
                yield Mark(record.at, "problem", f"malformed report on stream {stream}")
            case GrpcCall() as call if mark := call_mark(call):
                yield Mark(record.at, *mark)
            case _:
                pass
