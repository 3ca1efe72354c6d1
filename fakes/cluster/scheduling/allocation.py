"""Published devices and requests as values, and the allocation of devices to requests. Pure."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drahealth.fakes.cluster.api import Object
from drahealth.proto.values import DeviceId

# A claim's requests as values, combined with their device classes.
#
# A class or request can select devices only by their driver, in the CEL form `device.driver == "NAME"`. Other
# expressions are rejected with a message and never allocated. Source: API resource.k8s.io/v1, `DeviceClaim`.

_DRIVER_SELECTOR = re.compile(r"""\s*device\.driver\s*==\s*(["'])([^"'\\]+)\1\s*""")
_UNSUPPORTED = ("capacity", "derivedAttributes")


class UnschedulableError(Exception):
    """A pod cannot be scheduled now; the text is for its PodScheduled condition."""


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a device (`DeviceTaint`)."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Toleration:
    """Taints that a request tolerates (`DeviceToleration`); an empty key or effect matches all."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        return (
            self.key in ("", taint.key)
            and self.effect in ("", taint.effect)
            and (self.operator == "Exists" or self.value == taint.value)
        )


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """The number of devices of one request; `count` None means all that match (allocationMode All)."""

    request: str
    """Name in allocation results: the request, or `request/subrequest` in a prioritized list."""
    device_class: str
    drivers: tuple[str, ...] = ()
    """Drivers named by the selectors; the device's driver must equal each of them."""
    count: int | None = 1
    admin: bool = False
    tolerations: tuple[Toleration, ...] = ()

    def matches(self, driver: str) -> bool:
        return all(wanted == driver for wanted in self.drivers)

    def tolerates(self, taints: Sequence[Taint]) -> bool:
        return all(any(toleration.tolerates(taint) for toleration in self.tolerations) for taint in taints)


Alternatives = tuple[DeviceRequest, ...]
"""One request: its alternatives, the preferred one first."""


def requests_of(claim: Object, classes: Mapping[str, Object]) -> list[Alternatives]:
    """The claim's requests in order. `UnschedulableError` for an unknown class or an unsupported expression."""
    metadata, devices = claim["metadata"], claim["spec"].get("devices", {})
    name = metadata.get("name") or metadata["generateName"]
    try:
        if devices.get("constraints"):
            raise UnschedulableError("constraints are not supported; remove them")
        return [_alternatives(request, classes) for request in devices.get("requests", ())]
    except UnschedulableError as why:
        raise UnschedulableError(f"claim {name}: {why}") from None


def _alternatives(request: Object, classes: Mapping[str, Object]) -> Alternatives:
    name = request["name"]
    if exactly := request.get("exactly"):
        return (_wanted(name, exactly, classes),)
    if listed := request.get("firstAvailable"):
        return tuple(_wanted(f"{name}/{one['name']}", one, classes) for one in listed)
    raise UnschedulableError(f"request {name}: set `exactly` or `firstAvailable`")


def _wanted(name: str, request: Object, classes: Mapping[str, Object]) -> DeviceRequest:
    device_class = request.get("deviceClassName", "")
    if device_class not in classes:
        raise UnschedulableError(f"request {name}: device class {device_class} does not exist")
    if unsupported := [field for field in _UNSUPPORTED if request.get(field)]:
        raise UnschedulableError(f"request {name}: {unsupported[0]} is not supported; remove it")
    selectors = [*classes[device_class].get("spec", {}).get("selectors", ()), *request.get("selectors", ())]
    return DeviceRequest(
        name,
        device_class,
        drivers=tuple(_driver(name, selector) for selector in selectors),
        count=_count(name, request),
        admin=bool(request.get("adminAccess")),
        tolerations=tuple(_toleration(toleration) for toleration in request.get("tolerations", ())),
    )


def _driver(name: str, selector: Any) -> str:
    expression = selector.get("cel", {}).get("expression", "")
    if form := _DRIVER_SELECTOR.fullmatch(expression):
        return form[2]
    raise UnschedulableError(
        f'request {name}: this scheduler understands no selector but device.driver == "NAME", not {expression}'
    )


def _count(name: str, request: Object) -> int | None:
    mode = request.get("allocationMode") or "ExactCount"
    if mode == "All":
        return None
    if mode != "ExactCount":
        raise UnschedulableError(f"request {name}: allocationMode must be ExactCount or All, got {mode}")
    return int(request.get("count") or 1)


def _toleration(toleration: Object) -> Toleration:
    return Toleration(
        toleration.get("key", ""),
        toleration.get("operator") or "Equal",
        toleration.get("value", ""),
        toleration.get("effect", ""),
    )


# Published devices as values: the devices of each pool that a node can use. Source: API `ResourceSliceSpec`.
#
# Only the newest generation of a pool counts. Devices with shared counters and devices with a node selector are not
# offered, because neither is implemented here.

_PREVENTING = ("NoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class Offer:
    """A device that a node can use, and its taints."""

    id: DeviceId
    taints: tuple[Taint, ...] = ()
    node_local: bool = True


@dataclass(frozen=True, slots=True)
class Pool:
    """The devices of one pool; incomplete while slices of the newest generation are missing."""

    driver: str
    offers: tuple[Offer, ...]
    complete: bool = True


def pools_on(node: str, slices: Iterable[Object]) -> list[Pool]:
    """The pools with devices for this node, ordered by driver and pool; a pool with a duplicate device is ignored."""
    by_pool: dict[tuple[str, str], list[Object]] = defaultdict(list)
    for slice_ in slices:
        by_pool[slice_["spec"]["driver"], slice_["spec"]["pool"]["name"]].append(slice_)
    pools = (_pool(node, by_pool[key]) for key in sorted(by_pool))
    return [pool for pool in pools if pool is not None and pool.offers]


def _pool(node: str, slices: list[Object]) -> Pool | None:
    newest = max(_generation(slice_) for slice_ in slices)
    current = [slice_["spec"] for slice_ in _by_name(slices) if _generation(slice_) == newest]
    names = [device["name"] for spec in current for device in spec.get("devices") or ()]
    if len(set(names)) < len(names):
        return None
    offers = tuple(offer for spec in current for offer in _offers(node, spec))
    return Pool(current[0]["driver"], offers, len(current) >= current[0]["pool"].get("resourceSliceCount", 1))


def _offers(node: str, spec: Object) -> Iterator[Offer]:
    for device in spec.get("devices") or ():
        placed = device if spec.get("perDeviceNodeSelection") else spec
        is_here = placed.get("nodeName") == node or placed.get("allNodes")
        if is_here and not device.get("consumesCounters"):
            device_id = DeviceId(spec["driver"], spec["pool"]["name"], device["name"])
            yield Offer(device_id, _taints(device), not placed.get("allNodes"))


def _taints(device: Object) -> tuple[Taint, ...]:
    return tuple(
        Taint(taint.get("key", ""), taint.get("value", ""), taint["effect"])
        for taint in device.get("taints") or ()
        if taint.get("effect") in _PREVENTING
    )


def _generation(slice_: Object) -> int:
    return int(slice_["spec"]["pool"].get("generation", 0))


def _by_name(slices: list[Object]) -> list[Object]:
    return sorted(slices, key=lambda slice_: str(slice_["metadata"]["name"]))


# Allocates devices to requests: all or nothing, no device twice. Pure.
#
# The search backtracks if a choice leaves a later request without devices, as the real allocator does. To stay fast,
# it treats devices that suit exactly the same requests as one group, and only tries how many of each group a request
# takes.


@dataclass(frozen=True, slots=True)
class Grant:
    """The devices of one request, and the chosen alternative."""

    request: DeviceRequest
    offers: tuple[Offer, ...]


def allocate(
    requests: Sequence[Alternatives], pools: Sequence[Pool], in_use: Collection[DeviceId]
) -> list[Grant] | None:
    """One grant for each request, or None if they cannot all be met. `in_use`: devices that other claims hold."""
    return _Search(requests, pools, in_use).grants(0, ())


_Choice = tuple[tuple[Offer, ...], tuple[int, ...]]
"""The devices for one request, and the number of allocated devices of each group after it."""


class _Search:
    """`taken` counts the allocated devices of each group; the devices of a group are used in order."""

    def __init__(self, requests: Sequence[Alternatives], pools: Sequence[Pool], in_use: Collection[DeviceId]) -> None:
        self._requests = requests
        self._pools = pools
        self._in_use = in_use
        self._offers = [offer for pool in pools for offer in pool.offers]
        self._groups = self._grouped()

    def grants(self, index: int, taken: tuple[int, ...]) -> list[Grant] | None:
        """Grants for the requests from `index` on."""
        if index == len(self._requests):
            return []
        for request in self._requests[index]:
            for offers, taken_then in self._ways(request, taken or (0,) * len(self._groups)):
                rest = self.grants(index + 1, taken_then)
                if rest is not None:
                    return [Grant(request, offers), *rest]
        return None

    def _ways(self, request: DeviceRequest, taken: tuple[int, ...]) -> Iterator[_Choice]:
        if request.count is None:
            yield from self._all(request, taken)
        elif request.admin:
            suitable = tuple(offer for offer in self._offers if _suits(request, offer))[: request.count]
            if len(suitable) == request.count:
                yield suitable, taken
        else:
            yield from self._counted(request, request.count, taken)

    def _all(self, request: DeviceRequest, taken: tuple[int, ...]) -> Iterator[_Choice]:
        """Every matching device, if there is at least one, all are allocatable, and their pools are complete."""
        pools = [pool for pool in self._pools if request.matches(pool.driver)]
        offers = tuple(offer for pool in pools for offer in pool.offers)
        may = all(pool.complete for pool in pools) and all(request.tolerates(offer.taints) for offer in offers)
        if not offers or not may:
            return
        if request.admin:
            yield offers, taken
        elif self._away(taken).isdisjoint(offer.id for offer in offers):
            whole = [len(g) if _suits(request, g[0]) else n for g, n in zip(self._groups, taken, strict=True)]
            yield offers, tuple(whole)

    def _counted(self, request: DeviceRequest, count: int, taken: tuple[int, ...]) -> Iterator[_Choice]:
        pairs = list(zip(self._groups, taken, strict=True))
        room = [len(group) - n if _suits(request, group[0]) else 0 for group, n in pairs]
        for split in _splits(count, room):
            chosen = [group[n : n + more] for (group, n), more in zip(pairs, split, strict=True)]
            then = tuple(n + more for n, more in zip(taken, split, strict=True))
            yield tuple(offer for part in chosen for offer in part), then

    def _away(self, taken: tuple[int, ...]) -> set[DeviceId]:
        """The devices that are no longer free."""
        given = (offer.id for group, n in zip(self._groups, taken, strict=True) for offer in group[:n])
        return {*self._in_use, *given}

    def _grouped(self) -> list[list[Offer]]:
        """The free devices, grouped by the requests that they suit."""
        groups: dict[tuple[bool, ...], list[Offer]] = {}
        for offer in self._offers:
            if offer.id not in self._in_use:
                suits = tuple(_suits(request, offer) for alternatives in self._requests for request in alternatives)
                groups.setdefault(suits, []).append(offer)
        return list(groups.values())


def _suits(request: DeviceRequest, offer: Offer) -> bool:
    return request.matches(offer.id.driver) and request.tolerates(offer.taints)


def _splits(count: int, room: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The ways to take `count` from groups of these sizes, as many as possible from the first ones first."""
    if count > sum(room):
        return
    if not room:
        yield ()
        return
    for first in range(min(count, room[0]), -1, -1):
        for rest in _splits(count - first, room[1:]):
            yield (first, *rest)
