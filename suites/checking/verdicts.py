"""Verdicts on requirements, and the findings that support them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, get_args

Grade = Literal["", "observed", "asked", "forced"]
"""How a run showed an ability, the weakest way first: the driver did it by itself, was asked to, or was forced.

Empty if the finding is not about an ability.
"""
GRADES: tuple[Grade, ...] = get_args(Grade)


class Verdict(StrEnum):
    """A verdict on one requirement. The order of the members is from the worst to the best."""

    ERROR = "ERROR"
    """The harness failed."""
    FAIL = "FAIL"
    """The driver violates the requirement."""
    NOT_TESTED = "NOT_TESTED"
    """The evidence is missing: an experiment did not run, or ended early."""
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
