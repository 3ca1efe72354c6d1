"""The decorator that registers a check, and the table of all checks."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from drahealth.suites.driver_checks.evidence import Evidence
from drahealth.suites.driver_checks.experiments import EXPERIMENTS
from drahealth.suites.driver_checks.observed_health import Stream, absence, served_apis, streams
from drahealth.suites.driver_checks.verdicts import Finding, not_applicable, not_tested, requirements

Judge = Callable[[Evidence], Finding]
HealthJudge = Callable[[Evidence, list[Stream]], Finding]
"""Judges the streams of a health API that the requirement binds."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check: a pure function from evidence to a finding."""

    name: str
    requirement: str
    experiments: tuple[str, ...]
    """The experiments that must be done. Otherwise their outcome decides, and `judge` is not called."""
    reads: tuple[str, ...]
    """Experiments whose records it uses, too, whether or not they are done."""
    fix: str
    """What a driver author does about a failure, in one sentence."""
    judge: Judge


CHECKS: dict[str, Check] = {}
"""All checks by name. Importing `drahealth.suites.driver_checks.all_checks` fills it."""


def check(requirement: str, *experiments: str, fix: str, reads: tuple[str, ...] = ()) -> Callable[[Judge], Judge]:
    """Registers the function as a check. Raises KeyError for an unknown requirement or experiment."""
    requirements()[requirement]
    for name in (*experiments, *reads):
        EXPERIMENTS[name]

    def register(judge: Judge) -> Judge:
        name = judge.__name__.replace("_", "-")
        assert name not in CHECKS, f"two checks are named {name}"
        CHECKS[name] = Check(name, requirement, experiments, reads, fix, judge)
        return judge

    return register


def health_check(
    requirement: str, *experiments: str, fix: str, reads: tuple[str, ...] = ()
) -> Callable[[HealthJudge], HealthJudge]:
    """Registers the function as a check of drivers with health. It gets the streams of `experiments`.

    It is not applicable to a driver without health, or without the health APIs of the requirement.
    """
    bound = requirements()[requirement].apis

    def register(judge: HealthJudge) -> HealthJudge:
        def whole(evidence: Evidence) -> Finding:
            if absent := absence(evidence):
                return not_applicable(absent[0], *absent[1])
            found = streams(evidence, *experiments)
            if bound and (other := _other_apis(evidence, bound)):
                return other
            mine = [one for one in found if not bound or one.api.name in bound]
            return judge(evidence, mine) if mine else not_tested("no health stream was opened")

        whole.__name__ = judge.__name__
        check(requirement, "services", *experiments, fix=fix, reads=reads)(whole)
        return judge

    return register


def needed_experiments(checks: Iterable[Check]) -> frozenset[str]:
    """The experiments that checks need and use, with those that must be done before them."""
    found = {name for one in checks for name in (*one.experiments, *one.reads)}
    while more := {EXPERIMENTS[name].requires for name in found if EXPERIMENTS[name].requires} - found:
        found |= more
    return frozenset(found)


def _other_apis(evidence: Evidence, bound: tuple[str, ...]) -> Finding | None:
    """Not applicable if the driver serves health APIs, but none of these."""
    served = served_apis(evidence)
    if not served or set(bound) & served.keys():
        return None
    records = (one.opened.number for one in served.values())
    return not_applicable(f"the driver serves {', '.join(served)} and none of {', '.join(bound)}", *records)
