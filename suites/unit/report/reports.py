"""Reports for tests: of the healthy run, of runs with violations, and made at random."""

from collections.abc import Callable
from dataclasses import replace
from datetime import date

from hypothesis import strategies as st

from drahealth.proto.events import Event, SocketsListed
from drahealth.proto.version import __version__
from drahealth.suites.driver_checks.all_checks import CHECKS
from drahealth.suites.driver_checks.evidence import Evidence
from drahealth.suites.driver_checks.judge import Judgement
from drahealth.suites.driver_checks.summary import Outcome, Summary, summarize
from drahealth.suites.driver_checks.verdicts import Finding, Verdict, requirements
from drahealth.suites.report.document import Conditions, RunReport, ScenarioResult
from drahealth.suites.report.run_report import Run
from drahealth.suites.report.soak import ResourceSample, ResourceSeries, ResourceUse, Soak
from drahealth.suites.unit.driver_checks.healthy_run import healthy_run

TODAY = date(2026, 11, 22)
RERUN = "drahealth check --requirement REQUIREMENT -- ./driver"


def soaked() -> RunReport:
    """An interrupted soak of 60 of 600 s, in which the descriptors of the drivers leak."""
    about = Conditions(
        command="drahealth soak",
        started="2026-11-22T09:00:00+00:00",
        profile="kep",
        seed=7,
        versions={"drahealth": __version__},
        options={"target": "reference", "seed": "7", "for": "600s"},
    )
    run = Run("reference", "the reference, profile kep", interrupted=True, conditions=about)
    run.results.append(ScenarioResult("round 1", "round 1: 3 drivers", ("STATUS-10",), "passed", 5.0, id="soak::1"))
    sample = ResourceSample(5.0, 22, 9, 80.5, processes=3)
    leak = ResourceUse("drivers", "descriptors", "leak", 1.0, 20, 30, 480.0, 1)
    run.soak = Soak(
        asked=600.0,
        lasted=60.0,
        simulated=1700.0,
        pieces=1,
        rounds=1,
        steps=20,
        disruptions={"start a Pod": 2},
        unexplained=0,
        per_round=1.0,
        per_hour=179.7,
        uses=(leak, ResourceUse("drahealth", "memory", "not judged", None, 80.5, 80.5, 0.0, 1)),
        series=(ResourceSeries("drahealth", 7, (sample,)),),
    )
    return run.report(ended=None)


def leave_sockets(_: str, event: Event) -> Event:
    """An edit of the healthy run that violates PLUGIN-18."""
    if isinstance(event, SocketsListed) and event.moment == "ended":
        return replace(event, registry=("gpu-reg.sock",))
    return event


def summary_of(evidence: Evidence) -> Summary:
    """The summary of a run, with all checks proven."""
    return summarize(evidence, today=TODAY, unproven=frozenset())


def failing() -> tuple[Summary, Evidence]:
    """A run that violates PLUGIN-18."""
    evidence = healthy_run(leave_sockets)
    return summary_of(evidence), evidence


def findings(text: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, Finding]]:
    """Findings of checks with any text."""
    records = st.lists(st.integers(1, 10**6), max_size=3).map(tuple)
    finding = st.builds(Finding, st.sampled_from(Verdict), text, text, records)
    return st.dictionaries(st.sampled_from(sorted(CHECKS)), finding, max_size=3)


def summaries(text: st.SearchStrategy[str]) -> st.SearchStrategy[Summary]:
    """Summaries of any verdicts with any text."""
    judgement = st.builds(Judgement, st.sampled_from(list(requirements().values())), findings(text), findings(text))
    name: Callable[[Judgement], str] = lambda one: one.requirement.id  # noqa: E731
    judgements = st.lists(judgement, max_size=5, unique_by=name).map(tuple)
    return st.builds(
        Summary, st.sampled_from(Outcome), st.lists(text, max_size=3).map(tuple), judgements, st.booleans()
    )
