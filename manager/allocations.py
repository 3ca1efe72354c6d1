"""The allocations of the node's pods, and the file that holds them."""

import json
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from drahealth.proto.quoting import one_line
from drahealth.proto.values import Grant, is_extended_resource

# The allocations of the node's pods: the holder of each device, and the choice of devices. Pure.


@dataclass(frozen=True, slots=True)
class Allocation:
    """The devices of one resource that one container holds, and the plugin's answer for them."""

    pod_uid: str
    container: str
    resource: str
    devices: tuple[str, ...]
    grant: Grant


class Allocations:
    """All allocations of the node.

    The allocations of an ended pod stay until devices are needed (P-31), or the pod is deleted from the API.
    """

    def __init__(self, allocations: Iterable[Allocation] = ()) -> None:
        self._pods: dict[str, dict[tuple[str, str], Allocation]] = {}
        self._ended: set[str] = set()
        for allocation in allocations:
            self.add(allocation)

    def __iter__(self) -> Iterator[Allocation]:
        for held in self._pods.values():
            yield from held.values()

    def add(self, allocation: Allocation) -> None:
        """Adds an allocation of a container."""
        held = self._pods.setdefault(allocation.pod_uid, {})
        held[allocation.container, allocation.resource] = allocation

    def get(self, pod_uid: str, container: str, resource: str) -> Allocation | None:
        return self._pods.get(pod_uid, {}).get((container, resource))

    def of(self, pod_uid: str, container: str | None = None) -> list[Allocation]:
        """The allocations of a pod, or of one of its containers."""
        held = self._pods.get(pod_uid, {}).values()
        return [allocation for allocation in held if container in (None, allocation.container)]

    def remove(self, allocation: Allocation) -> None:
        """Removes an allocation that failed."""
        held = self._pods.get(allocation.pod_uid, {})
        held.pop((allocation.container, allocation.resource), None)
        if not held:
            self._pods.pop(allocation.pod_uid, None)

    def end(self, pod_uid: str) -> None:
        """Marks the pod as ended; its devices stay allocated until another pod needs them."""
        if pod_uid in self._pods:
            self._ended.add(pod_uid)

    def drop(self, pod_uid: str) -> bool:
        """Removes a deleted pod; returns whether it held devices."""
        self._ended.discard(pod_uid)
        return self._pods.pop(pod_uid, None) is not None

    def free_ended(self) -> bool:
        """Frees the devices of ended pods; returns whether there were any."""
        ended = tuple(self._ended)
        for pod_uid in ended:
            self.drop(pod_uid)
        return bool(ended)

    def in_use(self, resource: str) -> set[str]:
        """The allocated devices of the resource."""
        return {device for held in self if held.resource == resource for device in held.devices}

    def reusable(self, pod_uid: str, resource: str, init: Collection[str]) -> set[str]:
        """The resource's devices that these init containers hold, and no other container of the pod."""
        held = [a for a in self.of(pod_uid) if a.resource == resource]
        mine = {device for a in held if a.container in init for device in a.devices}
        return mine - {device for a in held if a.container not in init for device in a.devices}

    def holders(self, resource: str, devices: Iterable[str], *, by_resource: bool = True) -> frozenset[str]:
        """The pods that hold any of these devices. Without `by_resource`, the first pod with a device of this id,
        whatever its resource (D-05).
        """
        wanted = set(devices)
        if by_resource:
            return frozenset(a.pod_uid for a in self if a.resource == resource and not wanted.isdisjoint(a.devices))
        owners: dict[str, str] = {}
        for allocation in self:
            for device in wanted.intersection(allocation.devices):
                owners.setdefault(device, allocation.pod_uid)
        return frozenset(owners.values())


def choose(available: Sequence[str], count: int, preferred: Sequence[str] = ()) -> tuple[str, ...]:
    """This number of devices, preferred ones first. Raises ValueError if there are too few."""
    if len(available) < count:
        raise ValueError(f"{count} requested, {len(available)} available")
    free = dict.fromkeys(available)
    return tuple(dict.fromkeys((*(p for p in preferred if p in free), *free)))[:count]


def grant_of(allocations: Iterable[Allocation]) -> Grant:
    """The additions to a container for all these allocations."""
    whole = Grant()
    for allocation in allocations:
        whole += allocation.grant
    return whole


def by_resource(allocations: Iterable[Allocation]) -> Mapping[str, tuple[str, ...]]:
    """The devices by resource, sorted by name."""
    return {a.resource: a.devices for a in sorted(allocations, key=lambda a: a.resource)}


# The third file of the manager: the containers' devices of device plugins, and the known resources.
#
# Like the other two files (`checkpoint`) it is JSON and replaced as a whole. A wrong part is ignored, the others are
# kept. The kubelet's own file, kubelet_internal_checkpoint, has another format and place and is not read.

ALLOCATIONS_FILE = "device_plugin_allocations"

log = logging.getLogger(__name__)

_ALLOCATION = TypeAdapter(Allocation)


def dump_allocations(allocations: Iterable[Allocation], resources: Iterable[str]) -> dict[str, Any]:
    """The allocations, and the names of resources with a current or earlier plugin."""
    return {"allocations": [asdict(allocation) for allocation in allocations], "resources": sorted(resources)}


def load_allocations(data: dict[str, Any]) -> tuple[list[Allocation], list[str]]:
    """The allocations and the resources of the file. Wrong parts are ignored and logged in one line."""
    wrong: list[str] = []
    allocations = [_allocation(entry, where, wrong) for where, entry in _entries(data, "allocations", wrong)]
    resources = [_resource(name, where, wrong) for where, name in _entries(data, "resources", wrong)]
    if wrong:
        log.error(
            "checkpoint %s: ignoring %d invalid entries, the first: %s",
            ALLOCATIONS_FILE,
            len(wrong),
            one_line(wrong[0]),
        )
    return [held for held in allocations if held is not None], [name for name in resources if name is not None]


def _allocation(entry: Any, where: str, wrong: list[str]) -> Allocation | None:
    try:
        allocation = _ALLOCATION.validate_python(entry)
        json.dumps(entry, ensure_ascii=False).encode()  # JSON can spell half a character, which no status could
    except ValidationError as error:
        first = error.errors()[0]
        wrong.append(f"{where}: {'.'.join(map(str, first['loc'])) or 'entry'}: {first['msg']}")
    except UnicodeError:
        wrong.append(f"{where}: invalid Unicode text")
    else:
        return allocation
    return None


def _resource(name: Any, where: str, wrong: list[str]) -> str | None:
    if isinstance(name, str) and is_extended_resource(name):
        return name
    wrong.append(f"{where}: {name!r} is not the name of an extended resource")
    return None


def _entries(data: dict[str, Any], key: str, wrong: list[str]) -> list[tuple[str, Any]]:
    found = data.get(key, None if data else [])
    if not isinstance(found, list):
        wrong.append(f"{key} must be a list")
        return []
    return [(f"{key}[{number}]", entry) for number, entry in enumerate(found)]
