"""The report of a run of the kubelet-side scenarios (`drahealth run --report`) as a result on the page. Pure."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from drahealth.proto.history import HistoryFile
from drahealth.suites.certifying.report.results import Cell, Detail, Requirement, Result, ScenarioView, shown
from drahealth.suites.certifying.report.scenario_lanes import scenario_group
from drahealth.suites.judging.ledger import every_known_issue, requirements
from drahealth.suites.judging.report import Result as Scenario
from drahealth.suites.judging.run_report import Judged, RunReport

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
