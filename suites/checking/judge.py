"""Judges evidence: one verdict for each requirement, with the findings of its checks. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from drahealth.proto.events import ExperimentEnded
from drahealth.suites.checking.abilities import graded
from drahealth.suites.checking.checks import CHECKS, Check
from drahealth.suites.checking.evidence import Evidence
from drahealth.suites.checking.experiments.plan import EXPERIMENTS
from drahealth.suites.checking.ledger import DriverRequirement, requirements
from drahealth.suites.checking.settings import FAULTS_MISSING, NO_FAULTS, NOT_ASKED
from drahealth.suites.checking.verdicts import Finding, Verdict, not_applicable, not_tested, static


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on a requirement from those of its checks; NOT_TESTED without any."""
    found = list(verdicts)
    if not found:
        return Verdict.NOT_TESTED
    return min((one for one in found if one is not Verdict.NOT_APPLICABLE), default=Verdict.NOT_APPLICABLE)


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on one requirement."""

    requirement: DriverRequirement
    findings: Mapping[str, Finding]
    """The finding of each check by its name."""
    remarks: Mapping[str, Finding] = field(default_factory=dict)
    """The failures of unproven checks; they do not count."""

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of its checks. A check that does not apply counts only if no other one does."""
        return worst(finding.verdict for finding in self.findings.values())

    @property
    def not_judged(self) -> Mapping[str, Finding]:
        """The checks that do not apply, beside others that decide the verdict: a part of the requirement."""
        if self.verdict is Verdict.NOT_APPLICABLE:
            return {}
        return {name: one for name, one in self.findings.items() if one.verdict is Verdict.NOT_APPLICABLE}


def judge(evidence: Evidence, checks: Iterable[Check] = CHECKS.values()) -> list[Judgement]:
    """The verdict on each requirement that binds the subject and that the level of the run includes.

    In the order of the ledger.
    """
    header = evidence.header
    included = {name: one for name, one in requirements().items() if one.is_judged(header.level, header.subject)}
    found: dict[str, dict[str, Finding]] = {name: {} for name in included}
    for check in checks:
        if check.requirement in included:
            found[check.requirement][check.name] = graded(check.name, _finding(check, evidence))
    return [Judgement(requirement, found[name]) for name, requirement in included.items()]


_ORDER = (Verdict.ERROR, Verdict.NOT_APPLICABLE, Verdict.STATIC, Verdict.NOT_TESTED)
"""Which outcome decides if several experiments of a check are not done."""


def _finding(check: Check, evidence: Evidence) -> Finding:
    """The check's own finding if its experiments are done; otherwise what their outcome says.

    A violation that was seen counts, even if its experiment did not reach its end. A check for which there is better
    proof that it does not apply gives its own reason.
    """
    outcomes = [found for name in check.experiments if (found := _blocked(name, evidence))]
    blocked = min(outcomes, key=lambda found: _ORDER.index(found.verdict), default=None)
    if blocked and blocked.verdict is Verdict.ERROR:
        return blocked
    try:
        found = check.judge(evidence)
    except Exception as error:  # a mistake in a check must not end the run, nor count against the driver
        return Finding(Verdict.ERROR, f"check {check.name} raised {type(error).__name__}: {error}")
    if blocked is None:
        return found
    stronger = Verdict.FAIL if blocked.verdict is Verdict.NOT_TESTED else Verdict.NOT_APPLICABLE
    return found if found.verdict is stronger else blocked


def _blocked(name: str, evidence: Evidence) -> Finding | None:
    """What the outcome of an experiment that is not done says; None if it is done."""
    end = next((one for one in evidence.of(ExperimentEnded) if one.experiment == name), None)
    if end is None:
        if "start" in EXPERIMENTS[name].needs and not evidence.header.started_by_us:
            return not_applicable("the driver was not started by drahealth")
        return not_tested(f"experiment {name} did not end")
    reason = f"experiment {name}: {end.what.reason}"
    match end.what.outcome:
        case "not applicable" if end.what.reason in (NOT_ASKED, FAULTS_MISSING):
            return not_tested(reason, end.number)
        case "not applicable" if end.what.reason == NO_FAULTS:
            return static(end.what.reason, end.number)
        case "not applicable":
            return not_applicable(reason, end.number)
        case "incomplete":
            return not_tested(reason, end.number)
        case "error":
            return Finding(Verdict.ERROR, reason, records=(end.number,))
        case "done":
            return None
