"""What a driver publishes, as values, and the ResourceSlices that say so. Pure.

Source: API resource.k8s.io/v1 `ResourceSliceSpec`, with its limits; kubeletplugin, `PublishResources`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from drahealth.fakes.cluster.api import SLICES, Object

DEVICES_PER_SLICE = 128
DEVICES_WITH_TAINTS_PER_SLICE = 64
"""The API's limits; the second is for slices with a device that has taints or consumes counters."""
_NAME_LIMIT = 253

INSTANCE = "drahealth/instance"
"""The annotation that tells the slices of two instances of a driver apart; empty for the one without a name."""


TaintKey = tuple[str, str, str, str]
Since = Mapping[TaintKey, str]
"""By device, key, value and effect of a taint the time at which it was added, as the API has it."""


@dataclass(frozen=True, slots=True)
class Pool:
    """The devices of one pool, each as the API has it: `{"name": "gpu-0", "attributes": {...}, "taints": [...]}`."""

    devices: Sequence[Object] = ()


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose ResourceSlices they are."""

    driver: str
    node: str
    node_uid: str = ""
    instance: str = ""
    main_pool: str = ""

    def has(self, slice_: Object) -> bool:
        """It is one of this driver's on this node, whoever made it."""
        spec = slice_.get("spec", {})
        return (spec.get("driver"), spec.get("nodeName")) == (self.driver, self.node)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The slices of a pool but for the generation: the devices of each, by its name."""

    pool: str
    slices: Mapping[str, Sequence[Object]] = field(default_factory=dict)

    def is_in(self, found: Object, stored: Sequence[Object] | None = None) -> bool:
        """Whether this slice says of this pool what it should, or what that has become where it was stored."""
        spec = found["spec"]
        devices = self.slices.get(found["metadata"]["name"]) if stored is None else stored
        return (
            devices is not None
            and spec["pool"]["name"] == self.pool
            and spec["pool"].get("resourceSliceCount") == len(self.slices)
            and _plain(spec.get("devices") or ()) == _plain(devices)
        )


def wanted(owner: Owner, pools: Mapping[str, Pool]) -> list[Wanted]:
    """What these pools are in slices; one without devices has one that is empty."""
    return [_wanted(owner, name, pool.devices) for name, pool in pools.items()]


def slice_object(owner: Owner, pool: Wanted, name: str, generation: int, since: Since | None = None) -> Object:
    """One slice of the pool; `since` is when taints were added that are there already."""
    metadata: Object = {"name": name, "annotations": {INSTANCE: owner.instance}}
    if owner.node_uid:
        node = {"apiVersion": "v1", "kind": "Node", "name": owner.node, "uid": owner.node_uid, "controller": True}
        metadata["ownerReferences"] = [node]
    return {
        "apiVersion": SLICES.api_version,
        "kind": SLICES.kind,
        "metadata": metadata,
        "spec": {
            "driver": owner.driver,
            "nodeName": owner.node,
            "pool": {"name": pool.pool, "generation": generation, "resourceSliceCount": len(pool.slices)},
            "devices": [_dated(device, since or {}) for device in pool.slices[name]],
        },
    }


def taints_since(slices: Iterable[Object]) -> Since:
    """When the API server was told of the taints in these slices: who tolerates them for a while counts from then."""
    return {
        _taint_key(device, taint): taint["timeAdded"]
        for slice_ in slices
        for device in slice_["spec"].get("devices") or ()
        for taint in device.get("taints") or ()
        if taint.get("timeAdded")
    }


def generation(slice_: Object) -> int:
    """That of its pool."""
    return int(slice_["spec"]["pool"].get("generation", 0))


def _wanted(owner: Owner, name: str, devices: Sequence[Object]) -> Wanted:
    special = any(device.get("taints") or device.get("consumesCounters") for device in devices)
    limit = DEVICES_WITH_TAINTS_PER_SLICE if special else DEVICES_PER_SLICE
    starts = range(0, max(len(devices), 1), limit)
    named = "" if name == (owner.main_pool or owner.node) else name
    return Wanted(
        name,
        {
            slice_name(owner.node, owner.driver, named, str(number)): devices[start : start + limit]
            for number, start in enumerate(starts)
        },
    )


def slice_name(*parts: str) -> str:
    """A name of these; what a name may not say is left out and told apart by a hash."""
    name = "-".join(filter(None, parts))
    tame = re.sub("[^-a-z0-9.]", ".", name)
    if tame == name and len(name) <= _NAME_LIMIT:
        return name
    return f"{tame[: _NAME_LIMIT - 17]}-{sha256(name.encode()).hexdigest()[:16]}"


def _dated(device: Object, since: Since) -> Object:
    if not device.get("taints"):
        return device
    dated = [{"timeAdded": time, **t} if (time := since.get(_taint_key(device, t))) else t for t in device["taints"]]
    return {**device, "taints": dated}


def _taint_key(device: Object, taint: Mapping[str, Any]) -> TaintKey:
    return device["name"], taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")


def _plain(devices: Sequence[Object]) -> list[Object]:
    """What was published of them: the API server adds since when a taint is there."""
    return [
        {**device, "taints": _timeless(device["taints"])} if device.get("taints") else dict(device)
        for device in devices
    ]


def _timeless(taints: Sequence[Mapping[str, Any]]) -> list[Object]:
    return [{key: value for key, value in taint.items() if key != "timeAdded"} for taint in taints]
