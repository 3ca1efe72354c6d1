"""What a Pod holds and shows, how it differs from what a check expects, and violations."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from drahealth.proto.events import DevicesHeld, HeldDevice, HeldResource, Record, StatusSeen
from drahealth.proto.quoting import one_line
from drahealth.proto.values import Health, ResourceHealth, ResourceStatus

# Invariants on the devices that a pod holds. Pure functions from records to violations.

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


def is_of_request(allocated: str, request: str) -> bool:
    """Whether a device that was allocated for a request, or for `request/subrequest`, is of this one; "" is for all."""
    return request in ("", allocated, allocated.partition("/")[0])


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
            if (one.container, one.claim) == (place, claim) and is_of_request(one.request, request)
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


# What a Pod status shows of one device, and how it differs from what a check looked for. Pure.

_MESSAGE = 60
"""Characters of a message."""
_NAMES = 3
"""Names in a list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """What a failed check looked for, as far as it concerns one device, one driver or one pod."""

    pod: str = ""
    """uid; empty for the pods of the scenario."""
    driver: str = ""
    """The driver, or the resource of a device plugin."""
    instance: str = ""
    """The instance of the driver in a rolling update."""
    device: Device | None = None
    id: str = ""
    """resourceID of the device."""
    health: Health | None = None
    """None for the last report."""
    message: str | None = None
    """None for any message."""
    is_pattern: bool = False
    """Whether the message is a pattern with wildcards."""
    entry: str | None = None
    """None for an entry with any name."""
    places: tuple[str, ...] | None = None
    """The containers that must show the device, "" for the pod itself; None for at least one of them."""
    entries: Mapping[str, Collection[str]] | None = None
    """The names of all entries of each of the `places`, each with all its resourceIDs; instead of a device."""
    is_absent: bool = False
    """Whether the status must show no health."""
    is_registration: bool = False
    """Whether the check waited for a registration of the driver."""
    since: float = 0.0
    """When the check began to wait, on the clock of the records."""
    limit: float | None = None
    """Seconds for which it waited; None if it did not wait."""

    def __str__(self) -> str:
        name = self.device[2] if self.device else "what was expected"
        return reading(name, self.health, self.message) if self.health else name


def reading(name: str, health: Health, message: str | None) -> str:
    """A device with its health and message, in words."""
    return f"{name} {health}" + (f" {one_line(message, _MESSAGE)!r}" if message else "")


def shows(status: StatusSeen, sought: Sought) -> bool:
    """Whether the status shows it."""
    entries = dict(status.entries())
    if sought.is_absent:
        return not _entries_in(status, sought)
    if sought.entries is not None:
        return all(not _other_entries(status, sought, place) for place in _places(status, sought))
    places = sought.places
    if places is None:
        places = tuple(name for name in entries if any(_found(status, sought, name)))
    return bool(places) and all(
        bool(found := [one for _, one in _found(status, sought, place)])
        and all(_is_right(one, sought) for one in found)
        for place in places
    )


def lists(status: StatusSeen, sought: Sought) -> bool:
    """Whether each sought container has the device, with any health."""
    places = sought.places or tuple(place for place, _ in status.entries() if any(_found(status, sought, place)))
    return bool(places) and all(any(_found(status, sought, place)) for place in places)


def has_field(status: StatusSeen) -> bool:
    """Whether a part of the status has `allocatedResourcesStatus` with entries."""
    return any(entries for _, entries in status.entries())


def difference(status: StatusSeen, sought: Sought) -> str:
    """What the status does instead, as a predicate. It must not show what was sought."""
    if sought.is_absent:
        names = _names([entry.name for entry in _entries_in(status, sought)])
        return f"has {names or 'an empty list'} in allocatedResourcesStatus, where no health is expected"
    if not has_field(status):
        return "has no allocatedResourcesStatus"
    if sought.entries is not None:
        return next(filter(None, (_other_entries(status, sought, place) for place in _places(status, sought))), "")
    places = [place for place, _ in status.entries()]
    found = {place: entries for place in places if (entries := list(_found(status, sought, place)))}
    name = sought.device[2] if sought.device else sought.id
    wanted = [place for place in sought.places or () if place not in found]
    if not found or wanted:
        return _missing(status, sought, name, found, wanted)
    wrong = [one for entries in found.values() for _, one in entries if not _is_right(one, sought)]
    if not wrong:
        return f"shows {sought}"
    if wrong[0].health is sought.health:
        return f"shows {name} {wrong[0].health} with the message {_quoted(wrong[0])}, not {_text(sought.message)}"
    return f"shows {reading(name, wrong[0].health, wrong[0].message)}, not {sought.health}"


def _missing(
    status: StatusSeen,
    sought: Sought,
    name: str,
    found: dict[str, list[tuple[str, ResourceHealth]]],
    wanted: list[str],
) -> str:
    """The words for a device that is missing from a container, from its entry, or from the whole status."""
    if wanted and found:
        return f"shows {name} in {_place(next(iter(found)))}, and not in {_place(wanted[0])}"
    others = [
        (entry.name, one.resource_id) for _, entries in status.entries() for entry in entries for one in entry.resources
    ]
    if elsewhere := [entry for entry, id_ in others if id_ == sought.id]:
        return f"shows {name} in the entry {elsewhere[0]}, not in {sought.entry}"
    ids = _names([id_ for _, id_ in others])
    return f"does not list {sought.id}, but {ids}" if ids else f"has entries without devices, such as {sought.entry}"


def _found(status: StatusSeen, sought: Sought, place: str) -> Iterator[tuple[str, ResourceHealth]]:
    """The entries of a container with the device, and what they show."""
    for entry in dict(status.entries()).get(place, ()):
        if sought.entry in (None, entry.name):
            yield from ((entry.name, one) for one in entry.resources if one.resource_id == sought.id)


def _places(status: StatusSeen, sought: Sought) -> tuple[str, ...]:
    """The sought containers; without any, the regular ones."""
    return sought.places or tuple(container.name for container in status.containers)


def _other_entries(status: StatusSeen, sought: Sought, place: str) -> str:
    """How the entries of a container differ from the sought ones; empty if they do not."""
    found = {
        entry.name: {one.resource_id for one in entry.resources} for entry in dict(status.entries()).get(place, ())
    }
    wanted = {name: set(ids) for name, ids in (sought.entries or {}).items()}
    where = _place(place)
    if missing := sorted(wanted.keys() - found.keys()):
        instead = f", but {_names(sorted(found))}" if found else ""
        return f"has no entry {_names(missing)} in {where}{instead}"
    if more := sorted(found.keys() - wanted.keys()):
        return f"has another entry in {where}: {_names(more)}"
    for name, ids in wanted.items():
        if lost := sorted(ids - found[name]):
            return f"does not list {_names(lost)} in the entry {name} of {where}"
        if more := sorted(found[name] - ids):
            return f"also lists {_names(more)} in the entry {name} of {where}"
    return ""


def _is_right(shown: ResourceHealth, sought: Sought) -> bool:
    return shown.health is sought.health and fits(shown.message, sought)


def fits(message: str, sought: Sought) -> bool:
    """Whether a message is the sought one."""
    if sought.is_pattern and sought.message:
        return fnmatchcase(message, sought.message)
    return sought.message in (None, message)


def _entries_in(status: StatusSeen, sought: Sought) -> list[ResourceStatus]:
    """The entries of the sought containers."""
    return [entry for place, entries in status.entries() for entry in entries if place in (sought.places or (place,))]


def _place(name: str) -> str:
    return f"container {name}" if name else "the pod itself"


def _quoted(shown: ResourceHealth) -> str:
    return _text(shown.message)


def _text(message: str | None) -> str:
    return repr(one_line(message or "", _MESSAGE))


def _names(names: list[str]) -> str:
    known = list(dict.fromkeys(names))
    more = [f"{len(known) - _NAMES} more"] if len(known) > _NAMES else []
    return ", ".join([*(one_line(name) for name in known[:_NAMES]), *more])


# A violation of a requirement by the tested kubelet or driver. Harness errors are no violations.

STEP_FAILED = "a step failed"
"""The assertion of a check outside of all `judging` blocks."""

HOLDS = "holds throughout"
"""The assertion of the invariants of the whole history."""


class StepFailed(AssertionError):
    """A failed step of a timeline, such as an expectation of its author. It violates no requirement."""

    def __init__(self, where: str, what: str, expected: str, seen: str) -> None:
        super().__init__(where, what, expected, seen)
        self.where = where
        """The step, with its file and line."""
        self.sought: Sought | None = None
        """What the step looked for, if it was in a Pod status."""
        self.at = float("inf")
        """When it failed, on the clock of the history."""
        self.what = what
        """What has failed: the expectation of the author, or another step."""
        self.expected = expected
        self.seen = seen

    def __str__(self) -> str:
        return f"{self.where}: {self.what}\n  expected: {self.expected}\n  seen:     {self.seen}"


class Violation(AssertionError):
    """A failed requirement, with the expected and the observed state.

    `assertion` names the check in the scenario, so that a known issue can cover only this one.
    """

    where = ""
    """For a timeline: the failed step, with its file and line."""

    def __init__(self, requirement: str, assertion: str, expected: str, seen: str) -> None:
        super().__init__(requirement, assertion, expected, seen)
        self.requirement = requirement
        self.assertion = assertion
        self.expected = expected
        self.seen = seen
        self.sought: Sought | None = None
        """What the check looked for, if it was one device, one driver or one pod."""
        self.at = float("inf")
        """When it failed, on the clock of the history."""

    def __str__(self) -> str:
        expected = f"{self.where}: {self.expected}" if self.where else self.expected
        return f"{self.requirement}: {self.assertion}\n  expected: {expected}\n  seen:     {self.seen}"
