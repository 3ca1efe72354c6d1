"""The ledger of requirements of drivers, verdicts on them, and the findings that support them."""

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Any, Literal, get_args

from drahealth.manager.releases import Range

# The ledger of requirements: `driver_requirements.toml` binds DRA drivers, another file binds device plugins.

Family = Literal["plugin contract", "health", "Pod status", "faults", "taints", "device plugin"]
Level = Literal["check", "core", "full"]
"""How much of the ledger a run judges: that of `drahealth check`, or one of the two of `drahealth certify`."""
LEVELS: tuple[Level, ...] = get_args(Level)
"""All levels, from the smallest. Each judges what the levels before it judge, too."""
SubjectKind = Literal["dra-driver", "device-plugin"]
"""What a run judges: a DRA driver or a device plugin. A requirement binds one of them."""
SUBJECT_KINDS: tuple[SubjectKind, ...] = get_args(SubjectKind)


@dataclass(frozen=True, slots=True)
class DriverRequirement:
    """One requirement."""

    id: str
    level: Literal["MUST", "SHOULD", "MAY"]
    family: Family
    sentence: str
    source: str
    """Text and section."""
    link: str
    """URL of the source."""
    kubernetes: str
    """The Kubernetes minors that it holds for, such as 1.34-1.37; "KEP only" for no release."""
    apis: tuple[str, ...] = ()
    """The health APIs that it holds for; empty for all."""
    scope: Level = "check"
    """The smallest level that judges it."""
    binds: SubjectKind = "dra-driver"
    reading: str = ""
    """How we read a source that leaves a choice; empty if it leaves none."""

    def is_judged_at(self, level: Level) -> bool:
        """Whether a run of this level judges it."""
        return includes(level, self.scope)

    def is_judged(self, level: Level, subject: SubjectKind = "dra-driver") -> bool:
        """Whether a run of this level on such a subject judges it."""
        return self.binds == subject and self.is_judged_at(level)


def includes(level: Level, scope: Level) -> bool:
    """Whether a run of the level has what is of this scope."""
    return LEVELS.index(scope) <= LEVELS.index(level)


_FILES = ("driver_requirements.toml", "device_plugins/device_plugin_requirements.toml")


@cache
def requirements() -> dict[str, DriverRequirement]:
    """All requirements by ID, in the order of the files."""
    folder = resources.files("drahealth.suites.driver_checks")
    files = (tomllib.loads(folder.joinpath(file).read_text()) for file in _FILES)
    entries = {name: entry for file in files for name, entry in file.items()}
    return {name: _requirement(name, **entry) for name, entry in entries.items()}


def _requirement(
    name: str, since: str = "", until: str = "", kep_only: bool = False, apis: Sequence[str] = (), **entry: Any
) -> DriverRequirement:
    """From an entry of a file. Raises TypeError or ValueError for a wrong one."""
    kubernetes = "KEP only" if kep_only else Range(since, until).minors
    return DriverRequirement(id=name, kubernetes=kubernetes, apis=tuple(apis), **entry)


# Verdicts on requirements, and the findings that support them.

Grade = Literal["", "observed", "asked", "forced"]
"""How a run showed an ability, the weakest way first: the driver did it by itself, was asked to, or was forced.

Empty if the finding is not about an ability.
"""
GRADES: tuple[Grade, ...] = get_args(Grade)


class Verdict(StrEnum):
    """A verdict on one requirement. The order of the members is from the worst to the best."""

    FAIL = "FAIL"
    """The driver violates the requirement, whatever else is missing."""
    ERROR = "ERROR"
    """The harness failed."""
    NOT_TESTED = "NOT_TESTED"
    """The evidence is missing: an experiment did not run, or ended early."""
    KNOWN_ISSUE = "KNOWN ISSUE"
    """A kubelet violates the requirement as its release is known to do. Only runs of scenarios have it."""
    WAIVED = "WAIVED"
    """The driver violates the requirement, and a waiver of the user accepts that."""
    STATIC = "STATIC"
    """The driver serves it, but nothing changed during the run, and no change can be forced."""
    PASS = "PASS"
    """The driver meets the requirement."""
    NOT_APPLICABLE = "NOT_APPLICABLE"
    """The requirement does not apply to this driver, or to this kind of run. An observation proves it."""

    def __lt__(self, other: object) -> bool:
        """Whether it is worse."""
        if not isinstance(other, Verdict):
            return NotImplemented
        order = list(Verdict)
        return order.index(self) < order.index(other)


OPEN = (Verdict.FAIL, Verdict.NOT_TESTED, Verdict.ERROR)
"""The verdicts on a MUST that prevent a certificate."""
ExitCode = Literal[0, 1, 3, 4]
"""Exit code of a check or a certification: conforms, fails, harness error, incomplete. 2 is wrong usage."""


def verdict_of(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on a requirement from those of its checks; NOT_TESTED without any.

    A check that does not apply counts only if no other one does.
    """
    found = list(verdicts)
    if not found:
        return Verdict.NOT_TESTED
    return min((one for one in found if one is not Verdict.NOT_APPLICABLE), default=Verdict.NOT_APPLICABLE)


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    verdict: Verdict
    seen: str
    """What was observed, with the names of devices, claims and files."""
    expected: str = ""
    """What was expected; empty unless the verdict is FAIL."""
    records: tuple[int, ...] = ()
    """Numbers of the records in the evidence that show it."""
    grade: Grade = ""
    """How the run showed the ability."""

    @property
    def line(self) -> str:
        """The finding in one line."""
        expected = f"expected {self.expected}; " if self.expected else ""
        return f"{expected}seen: {self.seen}"


def worst(findings: Sequence[Finding]) -> Finding:
    """All findings with the worst verdict as one, with their strongest grade."""
    verdict = min(finding.verdict for finding in findings)
    mine = [finding for finding in findings if finding.verdict is verdict]
    records = dict.fromkeys(record for finding in mine for record in finding.records)
    seen, grade = "; ".join(finding.seen for finding in mine), strongest(finding.grade for finding in mine)
    return Finding(verdict, seen, mine[0].expected, tuple(records), grade)


def strongest(grades: Iterable[Grade]) -> Grade:
    """The grade of the strongest way: forced before asked before observed; empty without any."""
    return max(grades, key=GRADES.index, default="")


def passed(seen: str, *records: int) -> Finding:
    """A requirement is met."""
    return Finding(Verdict.PASS, seen, records=records)


def failed(expected: str, seen: str, *records: int) -> Finding:
    """A requirement is violated."""
    return Finding(Verdict.FAIL, seen, expected, records)


def not_applicable(reason: str, *records: int) -> Finding:
    """A requirement does not apply; `reason` is the observation that proves it."""
    return Finding(Verdict.NOT_APPLICABLE, reason, records=records)


def not_tested(reason: str, *records: int) -> Finding:
    """The evidence does not show whether a requirement is met."""
    return Finding(Verdict.NOT_TESTED, reason, records=records)


def static(seen: str, *records: int) -> Finding:
    """The driver serves it, but the run showed no change that would test it."""
    return Finding(Verdict.STATIC, seen, records=records)


@dataclass(frozen=True, slots=True)
class Waiver:
    """One accepted violation."""

    id: str
    """ID of the requirement."""
    reason: str
    link: str
    """URL of an issue that tracks it."""
    owner: str
    until: date
    """The last day on which the waiver is valid."""
