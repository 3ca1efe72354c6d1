"""The allocations of the node's pods: the holder of each device, and the choice of devices. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from drahealth.proto.extended_resources import Grant


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
