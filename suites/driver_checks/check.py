"""The decorators that register a check, and the table of all checks."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import wraps

from drahealth.proto.quoting import one_line
from drahealth.suites.driver_checks.device_plugins.observed import of_resource, resources_of
from drahealth.suites.driver_checks.evidence import Evidence
from drahealth.suites.driver_checks.experiments import EXPERIMENTS
from drahealth.suites.driver_checks.observed_health import UNREAD, Stream, absence, served_apis, streams
from drahealth.suites.driver_checks.verdicts import Finding, Verdict, not_applicable, not_tested, requirements, worst

Judge = Callable[[Evidence], Finding]
HealthJudge = Callable[[Evidence, list[Stream]], Finding]
"""Judges the streams of a health API that the requirement binds."""


def everywhere(evidence: Evidence, found: list[Stream], requirement: str) -> list[Stream]:
    """These streams, and those of all experiments over the health APIs of the requirement.

    Requirements of reports hold in all of them: what is done to one device, stream or claim must not change the others.
    drahealth does not read the reports of a slow subscriber.
    """
    bound = requirements()[requirement].apis
    others = (one for one in streams(evidence) if not bound or one.api.name in bound)
    return [*found, *(one for one in others if one.experiment != UNREAD and one not in found)]


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
            judged = judge(evidence, mine)
            return judged if mine or judged.verdict is Verdict.FAIL else not_tested("no health stream was opened")

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


# Checks that judge each resource of a device plugin by itself.


def resource_check(
    requirement: str, *experiments: str, fix: str, reads: tuple[str, ...] = ()
) -> Callable[[Judge], Judge]:
    """Registers a check. One process can have several resources: then the worst finding counts, and names them."""

    def register(judge: Judge) -> Judge:
        @wraps(judge)
        def whole(evidence: Evidence) -> Finding:
            return each_resource(evidence, judge)

        check(requirement, *experiments, fix=fix, reads=reads)(whole)
        return judge

    return register


def each_resource(evidence: Evidence, judge: Judge) -> Finding:
    """The worst finding of all resources."""
    names = resources_of(evidence)
    if len(names) < 2:
        return judge(evidence)
    found = [(name, judge(of_resource(evidence, name, {other for other in names if other != name}))) for name in names]
    return worst([replace(finding, seen=f"{one_line(name)}: {finding.seen}") for name, finding in found])
