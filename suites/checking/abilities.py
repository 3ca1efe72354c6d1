"""The abilities of a driver, and how a run showed each: observed, asked or forced (docs/glossary.md). Pure.

An ability is what a driver does when its state changes. Checks that only call the driver show none.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from drahealth.suites.checking.verdicts import GRADES, Finding, Grade, Verdict, strongest


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
