"""Who holds which device of which resource: the allocations of the node's pods, and how devices are chosen. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from drahealth.proto.extended_resources import Grant


@dataclass(frozen=True, slots=True)
class Allocation:
    """The devices of one resource that one container holds, and what its plugin gave for them."""

    pod_uid: str
    container: str
    resource: str
    devices: tuple[str, ...]
    grant: Grant


class Allocations:
    """All allocations of the node.

    Those of a pod that has ended stay until devices are wanted again (P-31), or the pod is gone from the API.
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
        """The container holds these from now on."""
        held = self._pods.setdefault(allocation.pod_uid, {})
        held[allocation.container, allocation.resource] = allocation

    def get(self, pod_uid: str, container: str, resource: str) -> Allocation | None:
        return self._pods.get(pod_uid, {}).get((container, resource))

    def of(self, pod_uid: str, container: str | None = None) -> list[Allocation]:
        """What a pod holds, or one container of it."""
        held = self._pods.get(pod_uid, {}).values()
        return [allocation for allocation in held if container in (None, allocation.container)]

    def remove(self, allocation: Allocation) -> None:
        """The container never got them."""
        held = self._pods.get(allocation.pod_uid, {})
        held.pop((allocation.container, allocation.resource), None)
        if not held:
            self._pods.pop(allocation.pod_uid, None)

    def end(self, pod_uid: str) -> None:
        """The pod has ended; it holds its devices until somebody wants some."""
        if pod_uid in self._pods:
            self._ended.add(pod_uid)

    def drop(self, pod_uid: str) -> bool:
        """The pod is gone; whether it held anything."""
        self._ended.discard(pod_uid)
        return self._pods.pop(pod_uid, None) is not None

    def free_ended(self) -> bool:
        """Takes back what ended pods hold; whether there was any."""
        ended = tuple(self._ended)
        for pod_uid in ended:
            self.drop(pod_uid)
        return bool(ended)

    def in_use(self, resource: str) -> set[str]:
        """The devices of the resource that somebody holds."""
        return {device for held in self if held.resource == resource for device in held.devices}

    def reusable(self, pod_uid: str, resource: str, init: Collection[str]) -> set[str]:
        """What the pod's init containers of these names hold of the resource, and no other container of the pod."""
        held = [a for a in self.of(pod_uid) if a.resource == resource]
        mine = {device for a in held if a.container in init for device in a.devices}
        return mine - {device for a in held if a.container not in init for device in a.devices}

    def holders(self, resource: str, devices: Iterable[str], *, by_resource: bool = True) -> frozenset[str]:
        """The pods that hold any of these devices; not `by_resource`, whoever is found first with a device so called,
        of whatever resource (D-05)."""
        wanted = set(devices)
        if by_resource:
            return frozenset(a.pod_uid for a in self if a.resource == resource and not wanted.isdisjoint(a.devices))
        owners: dict[str, str] = {}
        for allocation in self:
            for device in wanted.intersection(allocation.devices):
                owners.setdefault(device, allocation.pod_uid)
        return frozenset(owners.values())


def choose(available: Sequence[str], count: int, preferred: Sequence[str] = ()) -> tuple[str, ...]:
    """So many of the devices, those that the plugin prefers first. Raises ValueError where there are too few."""
    if len(available) < count:
        raise ValueError(f"{count} wanted, {len(available)} available")
    free = dict.fromkeys(available)
    return tuple(dict.fromkeys((*(p for p in preferred if p in free), *free)))[:count]


def grant_of(allocations: Iterable[Allocation]) -> Grant:
    """What a container is started with for all these."""
    whole = Grant()
    for allocation in allocations:
        whole += allocation.grant
    return whole


def by_resource(allocations: Iterable[Allocation]) -> Mapping[str, tuple[str, ...]]:
    """The devices by resource, in the order of their names."""
    return {a.resource: a.devices for a in sorted(allocations, key=lambda a: a.resource)}
