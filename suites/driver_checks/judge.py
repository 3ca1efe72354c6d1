"""Judges evidence: one verdict for each requirement, and the abilities of the driver."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from drahealth.proto.events import ExperimentEnded
from drahealth.suites.driver_checks.all_checks import CHECKS, Check
from drahealth.suites.driver_checks.evidence import Evidence
from drahealth.suites.driver_checks.experiments import EXPERIMENTS, FAULTS_MISSING, NO_FAULTS, NOT_ASKED
from drahealth.suites.driver_checks.verdicts import (
    GRADES,
    DriverRequirement,
    Finding,
    Grade,
    Verdict,
    not_applicable,
    not_tested,
    requirements,
    static,
    strongest,
    verdict_of,
)

# The abilities of a driver, and how a run showed each: observed, asked or forced (docs/glossary.md). Pure.
#
# An ability is what a driver does when its state changes. Checks that only call the driver show none.


@dataclass(frozen=True, slots=True)
class Ability:
    """An ability, and the checks that show it."""

    name: str
    checks: tuple[str, ...]
    grade: Grade = ""
    """How these checks show it; empty if the finding says it, for example by the fault that was caused."""


ABILITIES = (
    Ability("faults", ("break-is-reported", "broken-device-is-listed-unhealthy")),
    Ability("recoveries", ("heal-is-reported", "healed-device-is-listed-healthy")),
    Ability("changed causes", ("change-of-the-cause-is-reported", "second-fault-does-not-heal")),
    Ability("unknown health", ("unknown-is-not-unhealthy",)),
    Ability("faults during Prepare", ("break-is-reported-during-prepare",)),
    Ability("faults without a stream", ("new-stream-starts-with-the-fault",)),
    Ability("faults while the process is stopped", ("change-while-stopped-is-reported",)),
    Ability("faults without the API server", ("break-is-reported-without-api-server",)),
    Ability("faults across restarts", ("restarted-driver-reports-the-fault", "new-kubelet-hears-of-the-fault")),
    Ability("restarts of the backend", ("break-is-reported-after-a-backend-restart",)),
    Ability("faults in the Pod status", ("fault-appears-in-the-pod-status", "kubelet-fault-appears-in-the-pod-status")),
    Ability("changes of health", ("all-subscribers-receive-all-reports",)),
    Ability("heartbeats", ("devices-are-refreshed-within-their-timeout",), "observed"),
    Ability("pauses of the process", ("reports-continue-after-a-stop",), "forced"),
    Ability(
        "restarts of the driver",
        ("restarted-driver-returns-the-same-devices", "restarted-driver-unprepares-its-claims"),
        "forced",
    ),
    Ability("restarts of the kubelet", ("driver-registers-again-at-the-same-socket",), "asked"),
    Ability(
        "restarts of the kubelet",
        ("slices-return-after-a-kubelet-restart", "plugin-registers-with-a-restarted-kubelet"),
        "forced",
    ),
    Ability(
        "rolling updates",
        ("two-instances-serve-side-by-side", "newer-instance-has-the-claims", "newer-instance-keeps-its-health"),
        "asked",
    ),
    Ability("deleted ResourceSlices", ("deleted-slice-returns",), "forced"),
    Ability(
        "outages of the API server",
        ("slices-are-published-when-the-api-server-is-up", "driver-answers-while-the-api-server-is-down"),
        "forced",
    ),
    Ability("removed sockets", ("plugin-serves-a-new-socket",), "forced"),
    Ability("exit", ("driver-ends-without-sockets", "plugin-exits-after-sigterm"), "asked"),
    Ability("end of child processes", ("children-end-with-the-driver",), "asked"),
)
"""All abilities, in the order of a report. Two entries of one name are one ability."""

_BY_CHECK: Mapping[str, Ability] = {check: one for one in ABILITIES for check in one.checks}


def graded(check: str, finding: Finding) -> Finding:
    """The finding of a check with the grade of the ability that it shows, unless it has one."""
    ability = _BY_CHECK.get(check)
    if ability is None or finding.grade or finding.verdict not in (Verdict.PASS, Verdict.FAIL):
        return finding
    return replace(finding, grade=ability.grade)


def shown_abilities(findings: Iterable[tuple[str, Finding]]) -> dict[str, Grade]:
    """The strongest way in which each ability was shown by a check that passed, in the order of the table."""
    grades: dict[str, list[Grade]] = {}
    for check, finding in findings:
        if check in _BY_CHECK and finding.verdict is Verdict.PASS and finding.grade:
            grades.setdefault(_BY_CHECK[check].name, []).append(finding.grade)
    return {one.name: strongest(grades[one.name]) for one in ABILITIES if one.name in grades}


def by_grade(abilities: Mapping[str, str]) -> dict[str, list[str]]:
    """The abilities of each grade, the strongest grade first."""
    found = {grade: [name for name, one in abilities.items() if one == grade] for grade in reversed(GRADES) if grade}
    return {grade: names for grade, names in found.items() if names}


# Judges evidence: one verdict for each requirement, with the findings of its checks. Pure.


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
        return verdict_of(finding.verdict for finding in self.findings.values())

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

    A violation that was seen counts, whatever the outcome of an experiment is. A check for which there is better proof
    that it does not apply gives its own reason.
    """
    try:
        found = check.judge(evidence)
    except Exception as error:  # a mistake in a check must not end the run, nor count against the driver
        return Finding(Verdict.ERROR, f"check {check.name} raised {type(error).__name__}: {error}")
    outcomes = [one for name in check.experiments if (one := _blocked(name, evidence))]
    if not outcomes or found.verdict is Verdict.FAIL:
        return found
    blocked = min(outcomes, key=lambda one: _ORDER.index(one.verdict))
    proven = found.verdict is Verdict.NOT_APPLICABLE and blocked.verdict in (Verdict.NOT_APPLICABLE, Verdict.STATIC)
    return found if proven else blocked


ABSENCES = frozenset(
    {
        "refused-driver-can-be-registered-again",
        "deleted-slice-returns",
        "deleted-pod-ends",
        "kubelet-deleted-pod-ends",
        "slices-are-published-when-the-api-server-is-up",
        "driver-answers-while-the-api-server-is-down",
        "slices-return-after-a-kubelet-restart",
        "plugin-serves-a-new-socket",
        "refused-plugin-registers-with-the-next-kubelet",
    }
)
"""The checks of events that must come. Their absence is a violation only if the experiment waited until its end."""


def unfinished(evidence: Evidence) -> Evidence:
    """The same evidence, as if no experiment had reached its end. What it shows is still a violation."""
    ended = ExperimentEnded("incomplete", "drahealth stopped")
    records = (replace(one, what=ended) if isinstance(one.what, ExperimentEnded) else one for one in evidence.records)
    return replace(evidence, records=tuple(records))


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
