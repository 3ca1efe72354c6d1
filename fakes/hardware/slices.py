"""Publishes a fake driver's devices as ResourceSlices, one pool a node (resource.k8s.io/v1)."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from drahealth.fakes.api import SLICES, Api, ApiError, Object

DEVICES_PER_SLICE = 128
"""The API's limit."""


@dataclass(frozen=True, slots=True)
class Published:
    """What one start of a driver has published."""

    names: tuple[str, ...] = ()
    generation: int = 0


def slices(driver: str, node: str, pool: str, devices: Sequence[str], generation: int) -> list[Object]:
    """The ResourceSlices that describe the pool."""
    starts = range(0, max(len(devices), 1), DEVICES_PER_SLICE)
    return [
        {
            "apiVersion": SLICES.api_version,
            "kind": SLICES.kind,
            "metadata": {"name": f"{node}-{driver}-{number}"},
            "spec": {
                "driver": driver,
                "nodeName": node,
                "pool": {"name": pool, "generation": generation, "resourceSliceCount": len(starts)},
                "devices": [_device(name) for name in devices[start : start + DEVICES_PER_SLICE]],
            },
        }
        for number, start in enumerate(starts)
    ]


async def publish(api: Api, driver: str, node: str, pool: str, devices: Sequence[str]) -> Published:
    """Makes the API server's slices of this pool those devices, whatever was there; all of them or none."""
    old = await _published(api, driver, node)
    generation = 1 + max((s["spec"]["pool"]["generation"] for s in old.values()), default=0)
    new = slices(driver, node, pool, devices, generation)
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


def _device(name: str) -> dict[str, Any]:
    return {"name": name, "attributes": {"model": {"string": "fake"}}, "capacity": {"memory": {"value": "80Gi"}}}
