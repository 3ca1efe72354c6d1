"""The report of a run of scenarios as a result, with the lanes of each scenario. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

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
from drahealth.suites.judging.ledger import every_known_issue, requirements
from drahealth.suites.judging.report import Judged, RunReport
from drahealth.suites.judging.report import Result as Scenario
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
from drahealth.suites.report.results import Cell, Detail, Requirement, Result, ScenarioView, shown

# The lanes of a scenario: the health of each device over time, from its recorded history. Pure.

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


# The report of a run of the kubelet-side scenarios (`drahealth run --report`) as a result on the page. Pure.

_SCENARIOS = 10
"""The most scenarios of one requirement."""


def kubelet_result(
    report: RunReport, name: str = "", histories: Mapping[str, HistoryFile] = MappingProxyType({})
) -> Result:
    """The report as a result. `histories` are those of its scenarios, by key."""
    counts = ", ".join(f"{count} {outcome}" for outcome, count in report.counts.items())
    return Result(
        name=shown(name) or "drahealth run",
        verdict=_verdict(report),
        tone=_tone(report),
        reasons=(*([f"Scenarios: {counts}."] if counts else []), *_incomplete(report)),
        facts=tuple((name, shown(value)) for name, value in _facts(report).items() if value),
        requirements={id_: _requirement(id_, one) for id_, one in report.requirements.items()},
        cells={id_: Cell(one.verdict, _details(id_, report.scenarios)) for id_, one in report.requirements.items()},
        scenarios={one.key: _scenario(one, histories.get(one.key)) for one in report.scenarios},
        why_no_lanes=_why_no_lanes(report),
    )


def _facts(report: RunReport) -> dict[str, str]:
    about = report.conditions
    return {
        "target": report.about,
        "health API": report.health_api or "v1 and v1alpha1, as advertised",
        "started": about.started,
        "drahealth": about.versions.get("drahealth", ""),
        "machine": " ".join(about.host.get(key, "") for key in ("system", "release", "machine")).strip(),
        "commit": about.revision or "",
    }


def _scenario(scenario: Scenario, history: HistoryFile | None) -> ScenarioView:
    return ScenarioView(shown(scenario.title), scenario.outcome, scenario_group(history) if history else None)


def _why_no_lanes(report: RunReport) -> str:
    """Why there is no history, if there is none."""
    if not any(one.history_file for one in report.scenarios):
        return "The lanes over time need the histories of the run: `drahealth run --report FILE --histories DIR`."
    return "The histories that the report names are not there."


def _verdict(report: RunReport) -> str:
    """The result in words: a run of some scenarios, or an interrupted one, never just passed."""
    code = report.result_code()
    if report.interrupted:
        return "interrupted"
    if report.ended_early:
        return "failed, and ended early" if code == 1 else "ended early"
    verdict = {0: "passed", 1: "failed", 2: "no scenario ran"}.get(code, "harness error")
    if code == 0 and report.counts.get("known issue", 0):
        verdict += ", with known issues"
    untested = sum(one.verdict == "NOT_TESTED" for one in report.requirements.values() if one.level == "MUST")
    return f"{verdict}, {untested} MUST not tested" if code == 0 and untested else verdict


def _incomplete(report: RunReport) -> Iterator[str]:
    """Why the run is not complete, if it is not."""
    if not report.complete:
        yield f"The run is not complete: {shown(report.reason)}."


def _tone(report: RunReport) -> str:
    """good only for a run that judged each MUST, and met all."""
    verdicts = {one.verdict for one in report.requirements.values() if one.level == "MUST"}
    if report.result_code() == 1:
        return "bad"
    return (
        "good" if report.result_code() == 0 and report.complete and verdicts <= {"PASS", "NOT_APPLICABLE"} else "open"
    )


def _requirement(id_: str, one: Judged) -> Requirement:
    entry = requirements().get(id_)
    family = f"requirements of the {entry.applies_to}" if entry else "other requirements"
    return Requirement(shown(id_), one.level, family, shown(one.sentence), shown(entry.source) if entry else "")


def _details(id_: str, scenarios: tuple[Scenario, ...]) -> tuple[Detail, ...]:
    """The scenarios that decide the verdict: the broken ones, otherwise all that judge the requirement."""
    broken = [one for one in scenarios if id_ in one.broken]
    judging = [one for one in scenarios if id_ in (*one.requirements, *one.beyond)]
    found = [_detail(one) for one in (broken or judging)]
    more = [Detail("scenarios", "", f"and {len(found) - _SCENARIOS} more")] if len(found) > _SCENARIOS else []
    return (*found[:_SCENARIOS], *more)


def _detail(scenario: Scenario) -> Detail:
    text = scenario.problem or scenario.reason or "; ".join((*_issues(scenario.known_issues), *scenario.notes))
    return Detail(
        name=f"scenario {shown(scenario.title)}",
        verdict=scenario.outcome,
        seen=shown(text),
        rerun=shown(scenario.rerun),
    )


def _issues(names: tuple[str, ...]) -> Iterator[str]:
    known = {issue.id: issue.what for issue in every_known_issue()}
    return (f"{name}: {known.get(name, 'unknown to this release')}" for name in names)
