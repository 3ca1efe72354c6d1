"""The decorator of checks that judge each resource of a device plugin by itself."""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps

from drahealth.proto.quoting import one_line
from drahealth.suites.driver_checks.check import Judge, check
from drahealth.suites.driver_checks.device_plugins.observed import of_resource, resources_of
from drahealth.suites.driver_checks.evidence import Evidence
from drahealth.suites.driver_checks.verdicts import Finding, worst


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
