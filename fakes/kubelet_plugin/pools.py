"""The pools that a driver publishes, and their ResourceSlices. Pure.

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
"""Limits of the API; the second applies to slices with a device that has taints or consumes counters."""
_NAME_LIMIT = 253

INSTANCE = "drahealth/instance"
"""Annotation with the driver instance that wrote a slice; empty for an instance without a name."""


TaintKey = tuple[str, str, str, str]
TaintTimes = Mapping[TaintKey, str]
"""`timeAdded` of taints, by device, key, value and effect."""


@dataclass(frozen=True, slots=True)
class Pool:
    """The devices of one pool in API form: `{"name": "gpu-0", "attributes": {...}, "taints": [...]}`."""

    devices: Sequence[Object] = ()


@dataclass(frozen=True, slots=True)
class Owner:
    """The driver, node and instance that own ResourceSlices."""

    driver: str
    node: str
    node_uid: str = ""
    instance: str = ""
    main_pool: str = ""

    def has(self, slice_: Object) -> bool:
        """Whether the slice belongs to this driver on this node, in any instance."""
        spec = slice_.get("spec", {})
        return (spec.get("driver"), spec.get("nodeName")) == (self.driver, self.node)


@dataclass(frozen=True, slots=True)
class DesiredPool:
    """The desired ResourceSlices of a pool: devices by slice name, without the generation."""

    pool: str
    slices: Mapping[str, Sequence[Object]] = field(default_factory=dict)

    def matches(self, found: Object, stored: Sequence[Object] | None = None) -> bool:
        """Whether a slice has the desired content, or the given content that the API server `stored` for it."""
        spec = found["spec"]
        devices = self.slices.get(found["metadata"]["name"]) if stored is None else stored
        return (
            devices is not None
            and spec["pool"]["name"] == self.pool
            and spec["pool"].get("resourceSliceCount") == len(self.slices)
            and _plain(spec.get("devices") or ()) == _plain(devices)
        )


def desired_pools(owner: Owner, pools: Mapping[str, Pool]) -> list[DesiredPool]:
    """The desired slices of these pools; a pool without devices has one empty slice."""
    return [_desired_pool(owner, name, pool.devices) for name, pool in pools.items()]


def slice_object(
    owner: Owner, pool: DesiredPool, name: str, generation: int, times: TaintTimes | None = None
) -> Object:
    """One ResourceSlice of the pool; `times` keeps `timeAdded` of existing taints."""
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
            "devices": [_with_times(device, times or {}) for device in pool.slices[name]],
        },
    }


def taint_times(slices: Iterable[Object]) -> TaintTimes:
    """`timeAdded` of all taints in these slices; `tolerationSeconds` counts from it."""
    return {
        _taint_key(device, taint): taint["timeAdded"]
        for slice_ in slices
        for device in slice_["spec"].get("devices") or ()
        for taint in device.get("taints") or ()
        if taint.get("timeAdded")
    }


def generation(slice_: Object) -> int:
    """The pool generation of a slice."""
    return int(slice_["spec"]["pool"].get("generation", 0))


def _desired_pool(owner: Owner, name: str, devices: Sequence[Object]) -> DesiredPool:
    special = any(device.get("taints") or device.get("consumesCounters") for device in devices)
    limit = DEVICES_WITH_TAINTS_PER_SLICE if special else DEVICES_PER_SLICE
    starts = range(0, max(len(devices), 1), limit)
    named = "" if name == (owner.main_pool or owner.node) else name
    return DesiredPool(
        name,
        {
            slice_name(owner.node, owner.driver, named, str(number)): devices[start : start + limit]
            for number, start in enumerate(starts)
        },
    )


def slice_name(*parts: str) -> str:
    """An object name from these parts; invalid characters are replaced, and a hash keeps the name unique."""
    name = "-".join(filter(None, parts))
    valid = re.sub("[^-a-z0-9.]", ".", name)
    if valid == name and len(name) <= _NAME_LIMIT:
        return name
    return f"{valid[: _NAME_LIMIT - 17]}-{sha256(name.encode()).hexdigest()[:16]}"


def _with_times(device: Object, times: TaintTimes) -> Object:
    if not device.get("taints"):
        return device
    taints = [{"timeAdded": time, **t} if (time := times.get(_taint_key(device, t))) else t for t in device["taints"]]
    return {**device, "taints": taints}


def _taint_key(device: Object, taint: Mapping[str, Any]) -> TaintKey:
    return device["name"], taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")


def _plain(devices: Sequence[Object]) -> list[Object]:
    """The devices as published: without `timeAdded`, which the API server sets."""
    return [
        {**device, "taints": _without_times(device["taints"])} if device.get("taints") else dict(device)
        for device in devices
    ]


def _without_times(taints: Sequence[Mapping[str, Any]]) -> list[Object]:
    return [{key: value for key, value in taint.items() if key != "timeAdded"} for taint in taints]
