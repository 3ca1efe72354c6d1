"""Checks of Allocate."""

from collections.abc import Iterator

from drahealth.suites.checking.device_plugins.checks.resources import resource_check
from drahealth.suites.checking.device_plugins.experiments.allocating import UNKNOWN_DEVICE
from drahealth.suites.checking.device_plugins.observed import AllocateCall, allocations, without_healthy_device
from drahealth.suites.checking.evidence import Evidence
from drahealth.suites.checking.observed.registrations import outcome
from drahealth.suites.checking.verdicts import Finding, failed, not_applicable, not_tested, passed

_NAME = "allocation"
_READS = ("list-and-watch",)  # it has the devices


@resource_check(
    "DEVPLUGIN-11",
    _NAME,
    fix="Return one ContainerAllocateResponse for each ContainerAllocateRequest, in the order of the requests.",
    reads=_READS,
)
def each_container_has_its_response(evidence: Evidence) -> Finding:
    """Allocate of known devices succeeds, with one response for each container, in order."""
    found = _known(evidence)
    if not found:
        return _uncalled(evidence)
    done = set()
    for one in found:
        if one.containers in done:
            continue  # another requirement
        done.add(one.containers)
        if not one.succeeded:
            return failed("Allocate succeeds", outcome(one.call.what), one.number)
        if len(one.responses) != len(one.containers):
            seen = f"{len(one.responses)} responses for {len(one.containers)} containers"
            return failed("one response for each container", seen, one.number)
    for one in found:
        if len(one.containers) == 2 and (wrong := _swapped(one, found)):
            return failed("responses in the order of the requests", wrong, one.number)
    return passed(f"{len(found)} calls with one response for each container", *(one.number for one in found))


def _swapped(pair: AllocateCall, found: list[AllocateCall]) -> str:
    """What shows that the two responses are swapped; empty if they are not, or if nothing shows it."""
    alone = {one.containers[0]: one.responses[0] for one in found if len(one.containers) == 1 == len(one.responses)}
    first, second = (alone.get(devices) for devices in pair.containers)
    if first is None or second is None or first == second or list(pair.responses) != [second, first]:
        return ""
    return f"the first response is the response for {', '.join(pair.containers[1])}"


@resource_check(
    "DEVPLUGIN-12",
    _NAME,
    fix="Return device nodes, mounts, environment variables, annotations or CDI devices for the container.",
    reads=_READS,
)
def responses_give_access(evidence: Evidence) -> Finding:
    """No response for a container is empty."""
    found = [one for one in _known(evidence) if one.succeeded and one.responses]
    for one in found:
        for devices, response in zip(one.containers, one.responses, strict=False):
            if not any(response.values()):
                return failed("content in each response", f"an empty response for {', '.join(devices)}", one.number)
    if not found:
        return not_tested("Allocate did not succeed") if allocations(evidence, _NAME) else _uncalled(evidence)
    return passed(f"{len(found)} answers with content", *(one.number for one in found))


@resource_check(
    "DEVPLUGIN-13", _NAME, fix="Return an error, such as NOT_FOUND, for an ID that is not in the list.", reads=_READS
)
def unknown_device_is_refused(evidence: Evidence) -> Finding:
    """Allocate of an unknown device fails."""
    for one in allocations(evidence, _NAME):
        if (UNKNOWN_DEVICE,) in one.containers:
            if one.succeeded:
                return failed("an error", f"Allocate of {UNKNOWN_DEVICE} succeeded", one.number)
            return passed(outcome(one.call.what), one.number)
    return _uncalled(evidence)


@resource_check(
    "DEVPLUGIN-14",
    _NAME,
    fix="Do not store allocated devices: a kubelet allocates a device again after its container has ended.",
    reads=_READS,
)
def device_can_be_allocated_again(evidence: Evidence) -> Finding:
    """The second Allocate of the same device succeeds."""
    pairs = list(_repeated(evidence))
    for before, again in pairs:
        if not again.succeeded:
            seen = f"the second Allocate failed: {outcome(again.call.what)}"
            return failed("Allocate succeeds again", seen, before.number, again.number)
    if not pairs:
        return not_tested("no device was allocated twice") if allocations(evidence, _NAME) else _uncalled(evidence)
    return passed("Allocate succeeded again", *(one.number for pair in pairs for one in pair))


@resource_check("DEVPLUGIN-15", _NAME, fix="Return a response that depends only on the devices.", reads=_READS)
def second_response_is_the_same(evidence: Evidence) -> Finding:
    """The second Allocate of the same devices has the same response."""
    pairs = [(before, again) for before, again in _repeated(evidence) if again.succeeded]
    for before, again in pairs:
        if before.responses != again.responses:
            return failed("the same response", "another response", before.number, again.number)
    if not pairs:
        return not_tested("no device was allocated twice") if allocations(evidence, _NAME) else _uncalled(evidence)
    return passed("the responses are equal", *(one.number for pair in pairs for one in pair))


def _uncalled(evidence: Evidence) -> Finding:
    """Not applicable without a healthy device; Allocate was not called."""
    if listed := without_healthy_device(evidence):
        return not_applicable("the plugin lists no healthy device", listed.number)
    return not_tested("Allocate was not called")


def _known(evidence: Evidence) -> list[AllocateCall]:
    """The calls for known devices."""
    return [one for one in allocations(evidence, _NAME) if one.containers and (UNKNOWN_DEVICE,) not in one.containers]


def _repeated(evidence: Evidence) -> Iterator[tuple[AllocateCall, AllocateCall]]:
    """Each call that repeats an earlier one that succeeded."""
    first: dict[tuple[tuple[str, ...], ...], AllocateCall] = {}
    for one in _known(evidence):
        if before := first.get(one.containers):
            yield before, one
        elif one.succeeded:
            first[one.containers] = one
