"""Publishes a fake driver's devices as ResourceSlices (resource.k8s.io/v1)."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256

from drahealth.fakes.api import SLICES, Api, ApiError, Object
from drahealth.fakes.hardware.control import Taint
from drahealth.fakes.inventory import Device

DEVICES_PER_SLICE = 128
DEVICES_WITH_TAINTS_PER_SLICE = 64
"""The API's limits."""
_NAME_LIMIT = 253


@dataclass(frozen=True, slots=True)
class Published:
    """What one start of a driver has published."""

    names: tuple[str, ...] = ()
    generation: int = 0


def slices(
    driver: str, node: str, pool: str, devices: Sequence[Object], generation: int, named: str = ""
) -> list[Object]:
    """The ResourceSlices that describe the pool, with this in their names."""
    limit = DEVICES_PER_SLICE if not any(device.get("taints") for device in devices) else DEVICES_WITH_TAINTS_PER_SLICE
    starts = range(0, max(len(devices), 1), limit)
    return [
        {
            "apiVersion": SLICES.api_version,
            "kind": SLICES.kind,
            "metadata": {"name": _slice_name(node, driver, named, str(number))},
            "spec": {
                "driver": driver,
                "nodeName": node,
                "pool": {"name": pool, "generation": generation, "resourceSliceCount": len(starts)},
                "devices": list(devices[start : start + limit]),
            },
        }
        for number, start in enumerate(starts)
    ]


def published_device(device: Device, taints: Sequence[Taint] = ()) -> Object:
    """The device as the API has it: model, memory, what it is a partition of, and its other attributes."""
    parent = {"parent": device.parent.replace("/", "-")} if device.parent else {}
    attributes = {"model": device.model, **parent, **device.attributes}
    return {
        "name": device.name,
        "attributes": {name: _attribute(value) for name, value in attributes.items()},
        "capacity": {"memory": {"value": device.memory}},
        **({"taints": [_taint(taint) for taint in taints]} if taints else {}),
    }


async def publish(api: Api, driver: str, node: str, pools: Mapping[str, Sequence[Object]], main: str = "") -> Published:
    """Makes the API server's slices of the driver here those pools, whatever was there; all of them or none.

    Slices of the pool `main`, or of the node's, are named after node and driver alone.
    """
    old = await _published(api, driver, node)
    generation = 1 + max((s["spec"]["pool"]["generation"] for s in old.values()), default=0)
    new = [
        slice_
        for pool, devices in pools.items()
        for slice_ in slices(driver, node, pool, devices, generation, "" if pool in (main, node) else pool)
    ]
    made = Published(tuple(slice_["metadata"]["name"] for slice_ in new), generation)
    try:
        for slice_ in new:
            name = slice_["metadata"]["name"]
            if name in old:
                await api.replace(SLICES, dict(old.pop(name), spec=slice_["spec"]))
            else:
                await api.create(SLICES, slice_)
    except BaseException:
        with suppress(ApiError):
            await withdraw(api, made)
        raise
    for name in old:
        await _delete(api, name)
    return made


async def withdraw(api: Api, published: Published) -> None:
    """Deletes slices, but not those that another instance of the driver has made its own since."""
    for name in published.names:
        try:
            found = await api.get(SLICES, name)
        except ApiError as error:
            if error.reason != "NotFound":
                raise
        else:
            if found["spec"]["pool"]["generation"] == published.generation:
                await _delete(api, name)


async def _delete(api: Api, name: str) -> None:
    try:
        await api.delete(SLICES, name)
    except ApiError as error:
        if error.reason != "NotFound":
            raise


async def _published(api: Api, driver: str, node: str) -> dict[str, Object]:
    found = await api.list(SLICES)
    return {
        slice_["metadata"]["name"]: slice_
        for slice_ in found
        if slice_["spec"]["driver"] == driver and slice_["spec"].get("nodeName") == node
    }


def _slice_name(*parts: str) -> str:
    """A name may not say all that a pool's may."""
    name = "-".join(filter(None, parts))
    tame = re.sub("[^-a-z0-9.]", ".", name)
    if tame == name and len(name) <= _NAME_LIMIT:
        return name
    return f"{tame[: _NAME_LIMIT - 17]}-{sha256(name.encode()).hexdigest()[:16]}"


def _attribute(value: str | int | bool) -> Object:
    kind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "string"
    return {kind: value}


def _taint(taint: Taint) -> Object:
    value = {"value": taint.value} if taint.value else {}
    return {"key": taint.key, **value, "effect": taint.effect}
