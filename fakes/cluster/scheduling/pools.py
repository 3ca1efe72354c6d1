"""Published devices as values: the devices of each pool that a node can use. Source: API `ResourceSliceSpec`.

Only the newest generation of a pool counts. Devices with shared counters and devices with a node selector are not
offered, because neither is implemented here.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.cluster.scheduling.device_requests import Taint
from drahealth.proto.values import DeviceId

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
