"""Invariants on the devices that a pod holds. Pure functions from records to violations."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from drahealth.proto.events import DevicesHeld, HeldDevice, HeldResource, Record, StatusSeen
from drahealth.proto.values import ResourceStatus

Device = tuple[str, str, str]
"""Driver, pool, device."""

DevicesByName = Mapping[str, Sequence[Device]]
"""The devices by their names in a Pod status. Several can have one name: a driver may give them the same CDI id."""


def by_name(devices: Iterable[tuple[str, Device]]) -> dict[str, tuple[Device, ...]]:
    """The devices of each name, each device once."""
    found: dict[str, dict[Device, None]] = {}
    for name, device in devices:
        found.setdefault(name, {})[device] = None
    return {name: tuple(named) for name, named in found.items()}


def not_held(records: Sequence[Record], devices: DevicesByName) -> Iterator[str]:
    """Entries and devices in a status that the container, or the pod itself, does not hold.

    Pods whose claims and requests are unknown are not judged.
    """
    held = _Held(records)
    reported: set[tuple[str, str, str, str]] = set()
    for record in records:
        status = record.what
        if not isinstance(status, StatusSeen) or not held.knows(status.uid):
            continue
        for place, entries in status.entries():
            for found in _strangers(held, status.uid, place, entries, devices):
                if (key := (status.uid, place, *found)) not in reported:
                    reported.add(key)
                    owner = f"container {place} of pod {status.pod}" if place else f"pod {status.pod}"
                    yield f"{owner} showed {found[1]} in entry {found[0]}, and does not hold it"


def missing(
    records: Sequence[Record], statuses: Iterable[StatusSeen], devices: DevicesByName, watched: Iterable[Device]
) -> Iterator[str]:
    """Devices of claims that a container of a running pod holds and does not show. Only `watched` ones are judged."""
    held, known = _Held(records), set(watched)
    for status in statuses:
        if status.phase != "Running":
            continue
        shown = {
            (place, device)
            for place, entries in status.entries()
            for entry in entries
            for resource in entry.resources
            for device in devices.get(resource.resource_id, ())
        }
        regular = {container.name for container in status.containers}
        for one in held.devices(status.uid):
            device = (one.driver, one.pool, one.device)
            if device in known and one.container in regular and (one.container, device) not in shown:
                yield f"container {one.container} of pod {status.pod} does not show {'/'.join(device)}"


class _Held:
    """What each pod held at any time. A status may be seen before an allocation, and after its end."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._devices: dict[str, set[HeldDevice]] = {}
        self._resources: dict[str, set[HeldResource]] = {}
        for record in records:
            if isinstance(held := record.what, DevicesHeld):
                self._devices.setdefault(held.uid, set()).update(held.devices)
                self._resources.setdefault(held.uid, set()).update(held.resources)

    def knows(self, uid: str) -> bool:
        return uid in self._devices

    def devices(self, uid: str) -> list[HeldDevice]:
        return sorted(self._devices.get(uid, ()), key=str)

    def of_claim(self, uid: str, place: str, entry: str) -> set[Device]:
        """The devices of the claim, or of the request, that the entry names."""
        claim, _, request = entry.removeprefix("claim:").partition("/")
        return {
            (one.driver, one.pool, one.device)
            for one in self._devices.get(uid, ())
            if (one.container, one.claim) == (place, claim) and request in ("", one.request, one.request.split("/")[0])
        }

    def count(self, uid: str, place: str, resource: str) -> int:
        """The number of devices of the resource that the container requests."""
        found = (
            one.count for one in self._resources.get(uid, ()) if (one.container, one.resource) == (place, resource)
        )
        return next(found, 0)


def _strangers(
    held: _Held, uid: str, place: str, entries: Sequence[ResourceStatus], devices: DevicesByName
) -> Iterator[tuple[str, str]]:
    """Entries and IDs that the place does not hold."""
    for entry in entries:
        if entry.name.startswith("claim:"):
            mine = held.of_claim(uid, place, entry.name)
            for resource in entry.resources:
                if mine.isdisjoint(devices.get(resource.resource_id, ())):
                    yield entry.name, resource.resource_id
        elif len(entry.resources) > held.count(uid, place, entry.name):
            yield entry.name, f"{len(entry.resources)} devices"
