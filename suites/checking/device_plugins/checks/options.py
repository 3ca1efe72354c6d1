"""Checks of the calls that a device plugin can advertise: GetPreferredAllocation and PreStartContainer."""

from collections.abc import Iterator
from typing import Any

from drahealth.proto.device_plugin import GET_PREFERRED_ALLOCATION, PRE_START_CONTAINER
from drahealth.suites.checking.device_plugins.checks.resources import resource_check
from drahealth.suites.checking.device_plugins.observed import calls, lacks_option, without_healthy_device
from drahealth.suites.checking.evidence import Evidence
from drahealth.suites.checking.observed.plain import at, sequence, texts
from drahealth.suites.checking.observed.registrations import outcome
from drahealth.suites.checking.verdicts import Finding, failed, not_applicable, not_tested, passed

_PREFERRED = "preferred-allocation"
_READS = ("list-and-watch",)  # it has the devices


@resource_check(
    "DEVPLUGIN-16",
    _PREFERRED,
    fix="Implement GetPreferredAllocation, or set get_preferred_allocation_available to false.",
    reads=_READS,
)
def advertised_preference_is_served(evidence: Evidence) -> Finding:
    """GetPreferredAllocation succeeds."""
    found = calls(evidence, GET_PREFERRED_ALLOCATION, _PREFERRED)
    for one in found:
        if one.what.code != "OK":
            return failed("GetPreferredAllocation succeeds", outcome(one.what), one.number)
    if not found and (lacking := _lacking(evidence, "get_preferred_allocation_available")):
        return lacking
    if not found:
        return not_tested("GetPreferredAllocation was not called")
    return passed(f"{len(found)} calls succeeded", *(one.number for one in found))


@resource_check(
    "DEVPLUGIN-17",
    _PREFERRED,
    fix="From available_deviceIDs, choose as many devices as allocation_size says, and no device twice. First choose "
    "all devices of must_include_deviceIDs.",
    reads=_READS,
)
def preferred_devices_are_as_requested(evidence: Evidence) -> Finding:
    """Each answer has the requested number of available devices, with those that it must include."""
    found = [one for one in calls(evidence, GET_PREFERRED_ALLOCATION, _PREFERRED) if one.what.code == "OK"]
    for one in found:
        requests = sequence(one.what.request, "container_requests")
        responses = sequence(one.what.response, "container_responses")
        if len(requests) != len(responses):
            seen = f"{len(responses)} responses for {len(requests)} containers"
            return failed("one response for each container", seen, one.number)
        for request, response in zip(requests, responses, strict=True):
            if wrong := next(_wrong(request, texts(response, "deviceIDs")), None):
                return failed(*wrong, one.number)
    if not found and (lacking := _lacking(evidence, "get_preferred_allocation_available")):
        return lacking
    if not found:
        return not_tested("GetPreferredAllocation did not succeed")
    return passed(f"{len(found)} answers as requested", *(one.number for one in found))


def _lacking(evidence: Evidence, option: str) -> Finding | None:
    """Not applicable if the plugin does not advertise the call, or lists no healthy device."""
    if answer := lacks_option(evidence, option):
        return not_applicable(f"the plugin does not set {option}", answer.number)
    if listed := without_healthy_device(evidence):
        return not_applicable("the plugin lists no healthy device", listed.number)
    return None


def _wrong(request: Any, chosen: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """What was expected and what was seen, for each mistake in the chosen devices."""
    available, included = texts(request, "available_deviceIDs"), texts(request, "must_include_deviceIDs")
    size = at(request, "allocation_size")
    if others := [one for one in chosen if one not in available]:
        yield f"devices of {', '.join(available)}", f"{others[0]}, which is not available"
    if missing := [one for one in included if one not in chosen]:
        yield f"{missing[0]} among the devices", f"{', '.join(chosen) or 'no device'}"
    if len(set(chosen)) != len(chosen):
        yield "each device once", ", ".join(chosen)
    if len(chosen) != size:
        yield f"{size} devices", f"{len(chosen)} devices: {', '.join(chosen) or 'none'}"


@resource_check(
    "DEVPLUGIN-18",
    "container-start",
    fix="Implement PreStartContainer, or set pre_start_required to false.",
    reads=_READS,
)
def required_pre_start_is_served(evidence: Evidence) -> Finding:
    """PreStartContainer succeeds for an allocated device."""
    found = calls(evidence, PRE_START_CONTAINER, "container-start")
    for one in found:
        if one.what.code != "OK":
            return failed("PreStartContainer succeeds", outcome(one.what), one.number)
    if not found and (lacking := _lacking(evidence, "pre_start_required")):
        return lacking
    if not found:
        return not_tested("PreStartContainer was not called")
    return passed("PreStartContainer succeeded", found[0].number)
