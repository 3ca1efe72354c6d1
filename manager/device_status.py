"""The health part of a status: `allocatedResourcesStatus` (KEP-4680, `ResourceStatus`). Pure."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from drahealth.manager.cache import Reading
from drahealth.manager.profile import Profile
from drahealth.proto.values import (
    MESSAGE_LIMIT,
    ClaimUse,
    DeviceId,
    Health,
    PreparedDevice,
    ResourceHealth,
    ResourceStatus,
)

T = TypeVar("T")

MAP_SLOTS = 8
"""Slots of a small map of a kubelet, in any of which a walk through it begins."""

_SEVERITY = {Health.HEALTHY: 0, Health.UNKNOWN: 1, Health.UNHEALTHY: 2}


def resource_id(device: PreparedDevice, profile: Profile) -> str:
    """The id of the device in the status (KEP-4680, `ResourceID`; P-08 for the releases)."""
    if profile.device_id == "first CDI id" and device.cdi_ids:
        return device.cdi_ids[0]
    return str(device.id)


def cut(message: str, profile: Profile) -> str:
    """A message within the API's limit of 1024 bytes; a truncated one ends in `...` (H-12)."""
    data = message.encode()
    if len(data) <= MESSAGE_LIMIT:
        return message
    kept = data[: MESSAGE_LIMIT - 3]
    # Go puts the broken bytes into JSON as U+FFFD, one each: "replace" would make one of several.
    how = "ignore" if profile.message_cut == "character" else "surrogateescape"
    text = kept.decode(errors=how)
    return "".join("�" if "\udc80" <= c <= "\udcff" else c for c in text) + "..."


def entries(
    uses: Sequence[ClaimUse],
    devices_of: Callable[[str], Sequence[PreparedDevice]],
    read: Callable[[DeviceId], Reading],
    profile: Profile,
    *,
    messages: bool = True,
) -> tuple[ResourceStatus, ...]:
    """One entry for each claim, or request of a claim, that a container uses and that has devices (P-09).

    The same for claims of the pod without a container. `messages` is the gate ResourceHealthStatusMessage. The order is
    that of the uses.
    """
    found: dict[str, ResourceStatus] = {}
    claims: set[str] = set()
    for use in uses:
        for name, devices in _named(use, devices_of(use.claim_uid), profile):
            resources = _resources(devices, read, profile, messages)
            if resources and name not in found and not (profile.requests == "first alone" and use.name in claims):
                found[name] = ResourceStatus(name, resources)
                claims.add(use.name)
    return tuple(found.values())


def turned(found: tuple[T, ...], by: int) -> tuple[T, ...]:
    """The entries or devices in the order of a kubelet's map, starting at its slot `by` (B-01, B-36)."""
    return found[by:] + found[:by]


def is_shown(use: ClaimUse, object_name: str, profile: Profile) -> bool:
    """Whether the profile shows this claim, with this object name, in statuses (P-04 to P-06, N-01)."""
    if use.extended:
        return profile.shows_extended_resources
    return {"all": True, "listed": use.listed, "same name": use.name == object_name}[profile.claims_shown]


def _named(
    use: ClaimUse, devices: Sequence[PreparedDevice], profile: Profile
) -> Iterator[tuple[str, Sequence[PreparedDevice]]]:
    """The entries of one use. KEP-4680 has only names `claim:NAME/REQUEST`, so a use of all requests has one entry for
    each.

    A device without a request belongs to all of them (DRA node API, `Device.request_names`).
    """
    name = f"claim:{use.name}"
    if use.request is not None:
        yield f"{name}/{use.request}", _serving(use.request, devices, profile)
        return
    requests = dict.fromkeys(request for device in devices for request in device.requests)
    if not requests or profile.whole_claim == "one entry":
        yield name, devices
        return
    for request in requests:
        yield f"{name}/{request}", [d for d in devices if not d.requests or request in d.requests]


def _serving(request: str, devices: Sequence[PreparedDevice], profile: Profile) -> Sequence[PreparedDevice]:
    """The devices of the request that the container names (P-07). Devices of `req` also serve `req/sub`."""
    if profile.requests != "filtered":
        return devices
    return [device for device in devices if not device.requests or _base(request) in device.requests]


def _base(request: str) -> str:
    """A request without its sub-request."""
    return request.partition("/")[0]


def _resources(
    devices: Sequence[PreparedDevice], read: Callable[[DeviceId], Reading], profile: Profile, messages: bool
) -> tuple[ResourceHealth, ...]:
    """One element for each id: the list is a map by resourceID, so a second device with the same id cannot be shown.

    In releases that list it, the API server rejects the status (P-12).
    """
    found_all: list[ResourceHealth] = []
    shown: dict[str, ResourceHealth] = {}
    for device in devices:
        reading = read(device.id)
        name = resource_id(device, profile)
        found = ResourceHealth(name, reading.health, cut(reading.message, profile) if messages else "")
        found_all.append(found)
        old = shown.get(name)
        worse = old is not None and _SEVERITY[found.health] > _SEVERITY[old.health]
        if old is None or (worse and profile.duplicate_id_shows == "worst"):
            shown[name] = found
    return tuple(found_all if profile.duplicate_id_shows == "all" else shown.values())
