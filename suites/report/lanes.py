"""Lanes: what happened to each device over time, as data for a picture. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from drahealth.proto.clock import format_seconds
from drahealth.proto.events import (
    ApiServerSwitched,
    BackendSwitched,
    DevicesListed,
    Event,
    ExperimentStarted,
    FaultCleared,
    FaultInjected,
    GrpcCall,
    KubeletSwitched,
    ListReceived,
    MalformedReceived,
    PodDeleted,
    PodRequested,
    ProcessExited,
    ProcessStarted,
    Record,
    ReportReceived,
    ReportSent,
    SignalSent,
    StatusSeen,
    Step,
    StreamClosed,
    StreamOpened,
    TimePassed,
    TimeSkipped,
)
from drahealth.proto.history import HistoryFile
from drahealth.proto.services import GET_INFO, PREPARE, UNPREPARE
from drahealth.proto.values import DeviceHealth, Health
from drahealth.suites.driver_checks.evidence import Evidence, Header, Observation
from drahealth.suites.driver_checks.observed import Device
from drahealth.suites.driver_checks.observed_health import OURS, Stream, arrivals, listed, streams, timeout_of
from drahealth.suites.judging.histories import devices_in
from drahealth.suites.judging.invariants import name_in

# Bars: the health of a device over time, from one source. Pure.


@dataclass(frozen=True, slots=True)
class Span:
    """A time with the same health and message."""

    start: float
    end: float
    health: Health
    message: str


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time in which a report was late, or in which a device had a fault."""

    start: float
    end: float
    text: str


@dataclass(frozen=True, slots=True)
class Bar:
    """The health of a device as one source reports it."""

    source: str
    """A health API with its stream, or the Pod status with its container."""
    spans: tuple[Span, ...]
    ticks: tuple[float, ...] = ()
    """When it was reported."""
    late: tuple[Stretch, ...] = ()
    """Times after the timeout of the last report, and before the next one."""
    faults: tuple[Stretch, ...] = ()
    """Times in which drahealth had broken the device."""


def merged(spans: Iterable[Span]) -> Iterator[Span]:
    """The spans in order; adjacent ones with the same health and message are one."""
    last: Span | None = None
    for span in spans:
        if last and (last.end, last.health, last.message) == (span.start, span.health, span.message):
            last = replace(last, end=span.end)
            continue
        if last:
            yield last
        last = span
    if last:
        yield last


# Marks: what drahealth did to the driver over time, and how its processes and streams ended. Pure.

Kind = Literal["fault", "cleared", "process", "server", "call", "problem", "step"]
_LIMIT = 200
"""The most marks of one process."""
_CALLS = {one.path.removeprefix("/") for one in (GET_INFO, *PREPARE.values(), *UNPREPARE.values())}


@dataclass(frozen=True, slots=True)
class Mark:
    """One thing that was done, or that ended unexpectedly."""

    at: float
    kind: Kind
    text: str


def marks(evidence: Evidence, process_of: Mapping[str, str]) -> dict[str, tuple[Mark, ...]]:
    """The marks of each process of the driver, in order. `process_of` has the process of each experiment."""
    found: dict[str, list[Mark]] = {}
    for record in evidence.records:
        if kind_and_text := _mark(record.what):
            process = getattr(record.what, "process", "") or process_of.get(record.experiment, "")
            found.setdefault(process, []).append(Mark(record.at, *kind_and_text))
    return {process: tuple(each[:_LIMIT]) for process, each in found.items()}


def _mark(event: Event) -> tuple[Kind, str] | None:
    match event:
        case ProcessStarted():
            return "process", f"process {event.pid} started"
        case ProcessExited():
            return "process", f"process {event.pid} ended, exit code {event.exit_code}"
        case SignalSent():
            return "process", f"{event.signal} sent"
        case ApiServerSwitched():
            return "server", f"API server {'reachable' if event.reachable else 'unreachable'}"
        case BackendSwitched():
            return "server", f"backend {event.script} {'started' if event.running else 'killed'}"
        case FaultInjected() | FaultCleared() if event.outcome != "done":
            return "problem", f"fault {event.fault}, {event.action}: {event.outcome}: {event.problem}"
        case FaultInjected():
            step = "injected" if event.step == "break" else "cause changed"
            return "fault", f"fault {event.fault} {step} on {event.device}: {event.action}"
        case FaultCleared():
            return "cleared", f"fault {event.fault} cleared on {event.device}: {event.action}"
        case KubeletSwitched():
            return "server", f"kubelet {'started' if event.running else 'stopped'}"
        case PodRequested():
            return "call", f"Pod {event.pod} {event.change}"
        case GrpcCall():
            return call_mark(event)
        case StreamClosed(why=why) if why != OURS and event.code not in ("UNIMPLEMENTED", "UNAVAILABLE"):
            return "problem", f"stream {event.stream} ended: {why}"
        case MalformedReceived():
            return "problem", f"malformed report on stream {event.stream}"
        case _:
            return None


def call_mark(call: GrpcCall) -> tuple[Kind, str] | None:
    """A call that registers a driver or prepares claims; a problem if it failed."""
    if call.method not in _CALLS:
        return None
    name = call.method.rpartition("/")[2]
    return ("call", name) if call.code == "OK" else ("problem", f"{name}: {call.code} {call.details}")


# The bars of Pod statuses and of device plugins' lists. Pure.

States = list[tuple[float, Mapping[str, tuple[Health, str]]]]
"""The devices with health and message, at each time at which they were seen."""


def pod_bars(evidence: Evidence) -> Iterator[tuple[str, str, Bar]]:
    """The health in `allocatedResourcesStatus`: experiment, ID of the resource, and bar of each container."""
    found: dict[tuple[str, str, str], States] = {}
    several = has_several_resources(evidence)
    for one in evidence.of(StatusSeen):
        for container, entries in one.what.entries():
            shown = {
                (f"{entry.name}/" if several and not entry.name.startswith("claim:") else "") + each.resource_id: (
                    each.health,
                    each.message,
                )
                for entry in entries
                for each in entry.resources
            }
            key = (one.experiment, one.what.pod, container)
            if shown or key in found:
                found.setdefault(key, []).append((one.at, shown))
    for gone in evidence.of(PodDeleted):
        for (experiment, pod, _), states in found.items():
            if (experiment, pod) == (gone.experiment, gone.what.pod):
                states.append((gone.at, {}))
    for (experiment, pod, container), states in found.items():
        source = f"status of Pod {pod}" + (f", container {container}" if container else "")
        yield from ((experiment, name, bar) for name, bar in state_bars(source, states, _end(evidence)))


def has_several_resources(evidence: Evidence) -> bool:
    """Whether a device plugin listed the devices of several resources: their IDs can then be the same."""
    return len({one.what.driver for one in evidence.of(ListReceived)}) > 1


def list_bars(evidence: Evidence) -> Iterator[tuple[str, str, Bar]]:
    """The health in the lists of a device plugin: experiment, ID of the device, and bar of each stream."""
    found: dict[tuple[str, str], States] = {}
    ends: dict[tuple[str, str], float] = {}
    several = has_several_resources(evidence)
    for one in evidence.of(ListReceived):
        prefix = f"{one.what.driver}/" if several else ""
        listed = {prefix + each.id: (_health(each.health), "") for each in one.what.devices}
        found.setdefault((one.experiment, one.what.stream), []).append((one.at, listed))
    for closed in evidence.of(StreamClosed):
        ends.setdefault((closed.experiment, closed.what.stream), closed.at)
    for (experiment, stream), states in found.items():
        end = ends.get((experiment, stream), _end(evidence))
        source = f"ListAndWatch, stream {stream}"
        yield from ((experiment, name, bar) for name, bar in state_bars(source, states, end))


def state_bars(source: str, states: States, end: float) -> Iterator[tuple[str, Bar]]:
    """The bar of each device in these states. The last state lasts until `end`."""
    stops = [*(at for at, _ in states[1:]), end]
    for name in dict.fromkeys(name for _, health in states for name in health):
        spans = [
            Span(at, stop, *health[name]) for (at, health), stop in zip(states, stops, strict=True) if name in health
        ]
        yield name, Bar(source, tuple(merged(spans)), tuple(at for at, health in states if name in health))


def _health(text: str) -> Health:
    """The health of a device plugin's list; any other text than the two that kubelets know is Unknown."""
    return Health(text) if text in list(Health) else Health.UNKNOWN


def _end(evidence: Evidence) -> float:
    return max((record.at for record in evidence.records), default=0.0)


# The bars of faults: when drahealth broke each device, and when it cleared the fault. Pure.

_Key = tuple[str, Device]


def fault_bars(evidence: Evidence) -> Iterator[tuple[str, str, Bar]]:
    """The process of the driver, the device, and its bar. A fault that is not cleared lasts until the end."""
    found: dict[_Key, list[Stretch]] = {}
    open_: dict[_Key, Observation[FaultInjected]] = {}
    for record in evidence.records:
        what = record.what
        if not isinstance(what, FaultInjected | FaultCleared) or what.outcome != "done":
            continue
        key = (what.process, Device(what.pool, what.device))
        if isinstance(what, FaultInjected):
            open_.setdefault(key, Observation(record.number, record.at, record.experiment, what))
        elif injected := open_.pop(key, None):
            found.setdefault(key, []).append(_stretch(injected, record.at))
    end = max((record.at for record in evidence.records), default=0.0)
    for key, injected in open_.items():
        found.setdefault(key, []).append(_stretch(injected, end))
    for (process, device), stretches in found.items():
        yield process, str(device), Bar("injected faults", (), faults=tuple(stretches))


def _stretch(injected: Observation[FaultInjected], end: float) -> Stretch:
    what = injected.what
    return Stretch(injected.at, end, f"fault {what.fault} ({what.grade}): {what.action}; expected {what.health}")


# Lanes: what happened to each device over time, as data for a picture. Pure.
#
# A lane has a bar for each health API, with the reports of its longest stream, and one for the Pod statuses. Streams
# of the same API that differ in lateness get a bar of their own.

LANES = 40
"""The most lanes of a run. Devices with findings come first, then those that became unhealthy, late or unknown."""
_UNREAD = "slow-subscriber"
"""The experiment that leaves its reports unread: they only seem late."""
_SHORTEST = 1.0
"""Seconds of the shortest stream with a bar, if all its devices are Healthy; many experiments read only one report."""


@dataclass(frozen=True, slots=True)
class Lane:
    """One device."""

    name: str
    bars: tuple[Bar, ...]

    @property
    def is_eventful(self) -> bool:
        """Whether it was ever broken, late, or not healthy."""
        return any(
            bar.faults or bar.late or any(span.health != Health.HEALTHY for span in bar.spans) for bar in self.bars
        )


@dataclass(frozen=True, slots=True)
class Group:
    """The devices of one process of the driver."""

    process: str
    lanes: tuple[Lane, ...]
    marks: tuple[Mark, ...]
    left_out: int = 0
    """Number of its devices without a lane, because there are too many."""

    @property
    def times(self) -> tuple[float, float]:
        """From its first to its last part, in seconds since the start of the run."""
        found = [mark.at for mark in self.marks]
        for bar in (bar for lane in self.lanes for bar in lane.bars):
            found += [at for span in bar.spans for at in (span.start, span.end)]
            found += [at for stretch in (*bar.late, *bar.faults) for at in (stretch.start, stretch.end)]
        return min(found, default=0.0), max(found, default=0.0)


Lanes = tuple[Group, ...]
"""The lanes of a run."""

_Bars = dict[str, dict[str, list[Bar]]]
"""By process of the driver, then by device."""


def lanes_of(evidence: Evidence, suspects: Iterable[str] = ()) -> Lanes:
    """The lanes of a run. `suspects` are texts of findings: the devices that they name come first."""
    process_of = {one.experiment: one.what.process for one in evidence.of(ExperimentStarted)}
    named = _words(suspects)
    found = marks(evidence, process_of)
    groups, free = [], LANES
    for process, bars in _bars_of(evidence, process_of).items():
        lanes = [Lane(name, tuple(each)) for name, each in bars.items()]
        lanes.sort(key=lambda lane: (named.isdisjoint((lane.name, _last(lane.name))), not lane.is_eventful))
        kept = tuple(lanes[:free])
        free -= len(kept)
        if lanes or process in found:
            groups.append(Group(process, kept, found.get(process, ()), len(lanes) - len(kept)))
    return tuple(groups)


def _bars_of(evidence: Evidence, process_of: Mapping[str, str]) -> _Bars:
    found: _Bars = {process: {} for process in process_of.values()}
    watched: dict[str, list[Stream]] = {}
    for stream in streams(evidence):
        if stream.experiment != _UNREAD and (stream.open_seconds >= _SHORTEST or _has_news(stream)):
            watched.setdefault(process_of.get(stream.experiment, ""), []).append(stream)
    for process, device, bar in fault_bars(evidence):
        found.setdefault(process, {}).setdefault(device, []).append(bar)
    for process, each in watched.items():
        for device, bar in stream_bars(each):
            found.setdefault(process, {}).setdefault(device, []).append(bar)
    for experiment, resource, bar in (*list_bars(evidence), *pod_bars(evidence)):
        bars = found.setdefault(process_of.get(experiment, ""), {})
        bars.setdefault(_device(resource, bars), []).append(bar)
    return found


def _has_news(stream: Stream) -> bool:
    return any(one.health != Health.HEALTHY for report in stream.reports for one in report.what.devices)


def _device(resource: str, known: Iterable[str]) -> str:
    """The device of a resource ID; the ID itself if it is unknown.

    It is driver/pool/device, a CDI device ID, or the ID of a device of a device plugin.
    """
    name = resource.rpartition("=")[2] if "=" in resource else resource.partition("/")[2] or resource
    found = [device for device in known if name in (device, _last(device))]
    return found[0] if len(found) == 1 else resource


def _last(device: str) -> str:
    return device.rpartition("/")[2]


def _words(texts: Iterable[str]) -> frozenset[str]:
    """The words of texts: some are names of devices."""
    return frozenset(word.strip("'\"()[]:;,.") for text in texts for word in text.split())


def stream_bars(found: list[Stream]) -> Iterator[tuple[str, Bar]]:
    """The bars of one process, each with its device: of the longest stream of each API, and of those that differ."""
    drawn: dict[tuple[str, str], list[bool]] = {}
    for stream in sorted(found, key=lambda one: -one.open_seconds):
        for device, bar in bars_of(stream):
            lateness = drawn.setdefault((stream.api.name, device), [])
            if not lateness or (bar.late and True not in lateness):
                lateness.append(bool(bar.late))
                yield device, bar


def bars_of(stream: Stream) -> Iterator[tuple[str, Bar]]:
    """The bar of each device of a stream."""
    end = stream.opened.at + stream.open_seconds
    unlisted = _unlisted(stream) if stream.api.prepared_only else {}
    for device, times in arrivals(stream).items():
        stops = [*(at for at, _, _ in times[1:]), end]
        spans, late = [], []
        for (at, _, one), stop in zip(times, stops, strict=True):
            gone = min((time for time in unlisted.get(device, ()) if at < time < stop), default=stop)
            spans.append(Span(at, gone, one.health, one.message))
            if not stream.api.prepared_only and stop - at > timeout_of(one):
                late.append(_late(at, stop, one))
        ticks = tuple(at for at, _, _ in times)
        yield str(device), Bar(f"{stream.api.name}, stream {stream.id}", tuple(merged(spans)), ticks, tuple(late))


def _late(at: float, stop: float, reported: DeviceHealth) -> Stretch:
    return Stretch(
        at + timeout_of(reported), stop, f"no report for {stop - at:.1f} s; timeout {timeout_of(reported)} s"
    )


def _unlisted(stream: Stream) -> dict[Device, list[float]]:
    """When reports no longer listed a device."""
    found: dict[Device, list[float]] = {}
    known: set[Device] = set()
    for report in stream.reports:
        now = listed(report)
        for device in known - now:
            found.setdefault(device, []).append(report.at)
        known |= now
    return found


_LANES = 4
"""The most lanes of a scenario; those that change come first."""
_BARS = 8
"""The most bars of a lane."""
_MARKS = 60
"""The most marks of a scenario."""
_SCENARIO = "scenario"
_ScenarioDevice = tuple[str, str]
"""A driver, or the resource of a device plugin, and its device."""


def scenario_group(history: HistoryFile) -> Group:
    """The lanes of the devices of all drivers, and what the scenario did. Times begin with the scenario."""
    records = _on_the_clock_of_the_node(history.records)
    found: dict[_ScenarioDevice, list[Bar]] = {}
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


def _statuses(records: Sequence[Record]) -> Iterator[tuple[_ScenarioDevice, Bar]]:
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
