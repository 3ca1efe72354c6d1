"""Reports for tests: of the healthy run, of runs with violations, and made at random."""

from collections.abc import Callable
from dataclasses import replace
from datetime import date

from hypothesis import strategies as st

from drahealth.proto.events import Event, SocketsListed
from drahealth.suites.driver_checks.all_checks import CHECKS
from drahealth.suites.driver_checks.evidence import Evidence
from drahealth.suites.driver_checks.judge import Judgement
from drahealth.suites.driver_checks.summary import Outcome, Summary, summarize
from drahealth.suites.driver_checks.verdicts import Finding, Verdict, requirements
from drahealth.suites.unit.driver_checks.healthy_run import healthy_run

TODAY = date(2026, 11, 22)
RERUN = "drahealth check --requirement REQUIREMENT -- ./driver"


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
