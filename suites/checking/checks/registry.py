"""The decorator that registers a check, and the table of all checks."""

from collections.abc import Callable
from dataclasses import dataclass

from drahealth.suites.checking.evidence import Evidence
from drahealth.suites.checking.experiments.plan import EXPERIMENTS
from drahealth.suites.checking.ledger import requirements
from drahealth.suites.checking.verdicts import Finding

Judge = Callable[[Evidence], Finding]


@dataclass(frozen=True, slots=True)
class Check:
    """One check: a pure function from evidence to a finding."""

    name: str
    requirement: str
    experiments: tuple[str, ...]
    """The experiments that must be done. Otherwise their outcome decides, and `judge` is not called."""
    fix: str
    """What a driver author does about a failure, in one sentence."""
    judge: Judge


CHECKS: dict[str, Check] = {}
"""All checks by name. Importing `drahealth.suites.checking.checks` fills it."""


def check(requirement: str, *experiments: str, fix: str) -> Callable[[Judge], Judge]:
    """Registers the function as a check. Raises KeyError for an unknown requirement or experiment."""
    requirements()[requirement]
    for name in experiments:
        EXPERIMENTS[name]

    def register(judge: Judge) -> Judge:
        name = judge.__name__.replace("_", "-")
        assert name not in CHECKS, f"two checks are named {name}"
        CHECKS[name] = Check(name, requirement, experiments, fix, judge)
        return judge

    return register
