"""Checks of ResourceSlices."""

from typing import Any

from drahealth.proto.events import ClaimAllocated, SliceChanged, SlicesListed
from drahealth.suites.checking.checks.registry import check
from drahealth.suites.checking.evidence import Evidence
from drahealth.suites.checking.observed.devices import content, devices_of, is_of, named, published, slice_name
from drahealth.suites.checking.observed.plain import text
from drahealth.suites.checking.observed.processes import is_done
from drahealth.suites.checking.observed.registrations import described, driver_name
from drahealth.suites.checking.verdicts import Finding, failed, not_applicable, not_tested, passed

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
)
def slices_do_not_change(evidence: Evidence) -> Finding:
    """No ResourceSlice is written again with the same devices."""
    lists = list(evidence.of(SlicesListed, "slices"))
    if not lists or not published(evidence).ever:
        return not_tested("no ResourceSlice was listed")
    driver, first = driver_name(evidence), lists[0]
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
    fix="Watch the ResourceSlices of the driver on its node, and publish a missing ResourceSlice again.",
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
