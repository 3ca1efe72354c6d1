"""Checks of ResourceSlices, and of a driver whose API server is down."""

from math import inf
from typing import Any

from drahealth.proto.events import (
    ApiServerSwitched,
    ClaimAllocated,
    GrpcCall,
    ProcessExited,
    ProcessStarted,
    RegistrationFailed,
    SignalSent,
    SliceChanged,
    SlicesListed,
)
from drahealth.proto.services import PREPARE
from drahealth.suites.driver_checks.check import check
from drahealth.suites.driver_checks.evidence import Evidence, Observation
from drahealth.suites.driver_checks.observed import (
    ClaimCall,
    Device,
    claim_calls,
    content,
    crashes,
    described,
    devices_of,
    driver_name,
    is_done,
    is_of,
    is_served,
    named,
    outcome,
    published,
    slice_name,
    text,
)
from drahealth.suites.driver_checks.observed_health import acted_on, fault_steps, served_apis, streams
from drahealth.suites.driver_checks.output_text import exit_text
from drahealth.suites.driver_checks.verdicts import Finding, failed, not_applicable, not_tested, passed

# Checks of ResourceSlices.

_SETTLING = 5.0
"""Seconds after the first list in which a driver may still complete its ResourceSlices."""


@check(
    "PLUGIN-13",
    "registration",
    "slices",
    fix="Publish ResourceSlices whose `spec.driver` is the name that GetInfo returns. "
    "Look for rejected writes in the log of the driver.",
)
def driver_publishes_its_devices(evidence: Evidence) -> Finding:
    """There are ResourceSlices with the driver's name and at least one device."""
    driver, info = driver_name(evidence), described(evidence)
    lists = list(evidence.of(SlicesListed, "slices"))
    if not driver or info is None or not lists:
        return not_tested("the ResourceSlices of the registered driver were not listed")
    for one in lists:
        if any(devices_of(found) for found in one.what.slices if is_of(found, driver)):
            devices = named(published(evidence).ever)
            return passed(f"ResourceSlices of {driver} list {devices}", info.number, one.number)
    others = sorted({text(one, "spec", "driver") for one in lists[-1].what.slices})
    if others:
        expected = f"ResourceSlices with `spec.driver` {driver}, as in GetInfo"
        return failed(expected, f"only ResourceSlices of {', '.join(others)}", info.number, lists[-1].number)
    if given := next(evidence.of(ClaimAllocated, "claims"), None):
        reason = f"{driver} publishes no ResourceSlices; another component must publish them. The claim is from --claim"
        return not_applicable(reason, lists[-1].number, given.number)
    return not_tested(f"{driver} published no device; a claim can be given with --claim", lists[-1].number)


@check(
    "PLUGIN-14",
    "slices",
    fix="Compare the published ResourceSlices with the current devices. Write a ResourceSlice only if a device was "
    "added, removed or changed. Do not publish values that change often, such as temperatures.",
    reads=("idle",),
)
def slices_do_not_change(evidence: Evidence) -> Finding:
    """No ResourceSlice is written again with the same devices. None goes while nobody watches the health."""
    lists, driver = list(evidence.of(SlicesListed, "slices")), driver_name(evidence)
    if gone := _unpublished(evidence, driver):
        return gone
    if not lists or not published(evidence).ever:
        return not_tested("no ResourceSlice was listed")
    first = lists[0]
    last = {slice_name(one): content(one) for one in first.what.slices if is_of(one, driver)}
    for one in evidence.of(SliceChanged, "slices"):
        if one.number < first.number or not is_of(one.what.slice, driver):
            continue
        if one.what.by == "check":
            break
        name, new = slice_name(one.what.slice), content(one.what.slice)
        if one.what.change == "DELETED":
            continue  # what counts is what the driver publishes in its place
        before = last.get(name) or next((old for old in last.values() if old == new), None)
        last[name] = new
        if before is not None and one.at > first.at + _SETTLING and (same := _without_reason(before, new)):
            seen = f"{name} was written again {one.at - first.at:.0f} s after the first list; {same}"
            return failed("no write of a ResourceSlice while its devices do not change", seen, first.number, one.number)
    return passed("no ResourceSlice was written again", *(one.number for one in lists))


def _unpublished(evidence: Evidence, driver: str) -> Finding | None:
    """Devices that do not break, and are published before a time without a subscriber, but not after it."""
    lists = list(evidence.of(SlicesListed, "idle"))
    if len(lists) < 2:
        return None
    before = _listed(lists[0].what, driver) - {acted_on(one) for one in fault_steps(evidence, "idle")}
    if missing := before - _listed(lists[-1].what, driver):
        expected = f"{named(before)} are published, as before a time without a health stream"
        return failed(expected, f"{named(missing)} are in no ResourceSlice", lists[0].number, lists[-1].number)
    return None


def _listed(what: SlicesListed, driver: str) -> set[Device]:
    return {device for one in what.slices if is_of(one, driver) for device in devices_of(one)}


def _without_reason(before: dict[str, Any], new: dict[str, Any]) -> str:
    """Why a write has no reason: nothing changed, or attributes of the same devices; "" if there is a reason."""
    if before == new:
        return "its content is the same"
    old, now = devices_of({"spec": _with_pool(before)}), devices_of({"spec": _with_pool(new)})
    if old.keys() != now.keys():
        return ""
    changed = {device for device in now if _untainted(old[device]) != _untainted(now[device])}
    return f"the same devices, with other attributes of {named(changed)}" if changed else ""


def _with_pool(spec: dict[str, Any]) -> dict[str, Any]:
    return {**spec, "pool": {"name": spec["pool"]}}


def _untainted(device: dict[str, Any]) -> dict[str, Any]:
    """A driver may taint a device when its health changes."""
    return {key: value for key, value in device.items() if key != "taints"}


@check(
    "PLUGIN-15",
    "slice-deletion",
    fix="Watch the ResourceSlices of the driver on its node, and publish a missing ResourceSlice again. "
    "With the Go package kubeletplugin, use v0.37 or newer: older versions lose a ResourceSlice that is deleted "
    "directly after an update (kubernetes/kubernetes#140063).",
)
def deleted_slice_returns(evidence: Evidence) -> Finding:
    """The devices of a ResourceSlice that drahealth deleted are published again."""
    deletions = [
        one
        for one in evidence.of(SliceChanged, "slice-deletion")
        if one.what.by == "check" and one.what.change == "DELETED"
    ]
    if not deletions:
        return not_tested("no ResourceSlice was deleted")
    for deleted in deletions:
        wanted = devices_of(deleted.what.slice).keys()
        written = [
            one
            for one in evidence.of(SliceChanged, deleted.experiment)
            if one.number > deleted.number and one.what.by == "driver" and one.what.change != "DELETED"
        ]
        lists = [one for one in evidence.of(SlicesListed, deleted.experiment) if one.number > deleted.number]
        found = [devices_of(one.what.slice) for one in written]
        found += [devices_of(one) for listed in lists for one in listed.what.slices]
        missing = wanted - {device for devices in found for device in devices}
        if missing and not is_done(evidence, deleted.experiment):
            return not_tested("the run ended too early to see the deleted ResourceSlice again", deleted.number)
        if missing:
            expected = f"{slice_name(deleted.what.slice)} with {named(frozenset(wanted))} is published again"
            waited = max((one.at for one in lists), default=deleted.at) - deleted.at
            return failed(expected, f"{named(frozenset(missing))} did not return in {waited:.0f} s", deleted.number)
    names = ", ".join(slice_name(one.what.slice) for one in deletions)
    return passed(f"the devices of {names} returned", *(one.number for one in deletions))


# Checks of a driver whose API server is down.

_NAME = "api-server-down"
_PREPARES = frozenset(method.path for method in PREPARE.values())


def _exit(evidence: Evidence, start: float, end: float) -> Observation[ProcessExited] | None:
    """An exit of the driver between two records, and before drahealth ends it."""
    end = min([end, *(one.number for one in evidence.of(SignalSent, _NAME) if one.number > start)])
    exits = (one for one in evidence.of(ProcessExited, _NAME) if start < one.number < end)
    return next(exits, None)


def _away(evidence: Evidence) -> list[tuple[int, float]]:
    """The times without an API server after the first one with it: the records of their starts and ends."""
    switches = [(one.number, one.what.reachable) for one in evidence.of(ApiServerSwitched, _NAME)]
    up = next((number for number, reachable in switches if reachable), inf)
    downs = [number for number, reachable in switches if not reachable and number > up]
    return [
        (down, min((number for number, reachable in switches if reachable and number > down), default=inf))
        for down in downs
    ]


def _is_away(away: list[tuple[int, float]], number: int) -> bool:
    return any(start < number < end for start, end in away)


@check(
    "PLUGIN-16",
    _NAME,
    fix="Do not exit if the API server is down at the start. Try again until the ResourceSlices are published.",
    reads=("slices",),
)
def slices_are_published_when_the_api_server_is_up(evidence: Evidence) -> Finding:
    """A driver that was started without an API server publishes its devices once there is one."""
    switches = list(evidence.of(ApiServerSwitched, _NAME))
    started = next(evidence.of(ProcessStarted, _NAME), None)
    down = next((one for one in switches if not one.what.reachable), None)
    if down is None or started is None or started.number < down.number:
        return not_tested("the driver was not started while its API server was down")
    up = next((one for one in switches if one.what.reachable and one.number > down.number), None)
    driver = driver_name(evidence)
    for one in evidence.of(SlicesListed, _NAME):
        devices = _listed(one.what, driver)
        if up and one.number > up.number and devices:
            return passed(
                f"published {one.at - up.at:.0f} s after the API server was up: {named(devices)}", up.number, one.number
            )
    again = next((one for one in switches if up and not one.what.reachable and one.number > up.number), None)
    if ended := _exit(evidence, started.number, again.number if again else float("inf")):
        if any(crashes(evidence, "main")):
            return not_tested("the driver exits by itself, even while its API server is up", ended.number)
        return failed("the driver keeps running", exit_text(ended.what), down.number, ended.number)
    if up is None or not is_done(evidence, _NAME):
        return not_tested("the API server was not up long enough", down.number)
    if not published(evidence).ever:
        return not_tested("the driver publishes no device, even while its API server is up", up.number)
    return failed("ResourceSlices within 60 s after the API server is up", "no ResourceSlices", down.number, up.number)


@check(
    "PLUGIN-17",
    _NAME,
    fix="Do not exit when the API server goes down. Answer the kubelet with the data that the driver has.",
    reads=("services",),
)
def driver_answers_while_the_api_server_is_down(evidence: Evidence) -> Finding:
    """Registration, prepare without claims, unprepare and health work after the API server went down."""
    away = _away(evidence)
    if not away:
        return not_tested("the API server did not go down after it was up")
    for down, up in away:
        if ended := _exit(evidence, down, up):
            return failed("the driver keeps running", exit_text(ended.what), down, ended.number)
    calls = [one for one in evidence.of(GrpcCall, _NAME) if _is_away(away, one.number)]
    for call in calls:
        if call.what.code != "OK" and not (f"/{call.what.method}" in _PREPARES and is_served(call.what)):
            expected = f"{call.what.method} succeeds while the API server is down"
            return failed(expected, outcome(call.what), call.number)
    for missing in evidence.of(RegistrationFailed, _NAME):
        if _is_away(away, missing.number):
            expected = "the registration socket exists while the API server is down"
            return failed(expected, missing.what.problem, missing.number)
    for unprepare in _unprepares(evidence):
        if lost := [uid for uid in unprepare.claims if not unprepare.has_result(uid)]:
            expected = "NodeUnprepareResources has a result for each claim"
            return failed(expected, f"no result for {', '.join(lost)}", unprepare.number)
    served = served_apis(evidence)
    opened = [one for one in streams(evidence, _NAME) if one.api.name in served and _is_away(away, one.opened.number)]
    for one in opened:
        if not one.reports and one.end and is_done(evidence, _NAME):
            expected = "a health report while the API server is down"
            return failed(expected, f"{one} ended without a report", one.opened.number, one.end.number)
    if not calls:
        return not_tested("the driver was not called while its API server was down", away[0][0])
    records = [*(call.number for call in calls), *(one.reports[0].number for one in opened if one.reports)]
    return passed("the driver answered while its API server was down", away[0][0], *records)


def _unprepares(evidence: Evidence) -> list[ClaimCall]:
    """The calls that unprepare claims while the API server is down."""
    away = _away(evidence)
    return [one for one in claim_calls(evidence, _NAME) if one.kind == "unprepare" and _is_away(away, one.number)]


@check(
    "PLUGIN-30",
    _NAME,
    fix="Unprepare a claim with what the driver stored when it prepared the claim. Do not read the claim from the API "
    "server, and do not wait for a write to it.",
)
def claims_are_unprepared_while_the_api_server_is_down(evidence: Evidence) -> Finding:
    """Claims that were prepared before are unprepared without an API server."""
    found = _unprepares(evidence)
    for call in found:
        if problem := next(filter(None, map(call.problem, call.claims)), ""):
            return failed("NodeUnprepareResources succeeds while the API server is down", problem, call.number)
    if not found:
        return not_tested("no claim was unprepared while the API server was down")
    return passed("the claims were unprepared", *(call.number for call in found))
