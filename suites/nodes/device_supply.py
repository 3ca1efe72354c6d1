"""How many devices a DRA driver has on a node, and how many of them are free."""

from collections.abc import Iterator
from dataclasses import dataclass

from drahealth.fakes.cluster.api import CLAIMS, SLICES, ListWatch, Object
from drahealth.fakes.waiting import poll

_PUBLISH_LIMIT = 5.0
"""Seconds for a driver to publish a change of its devices in ResourceSlices."""
_INTERVAL = 0.1


@dataclass(frozen=True, slots=True)
class DeviceSupply:
    """The devices of one driver in the ResourceSlices of a node, and those that claims have."""

    driver: str
    devices: frozenset[tuple[str, str]]
    """Each with its pool and its name."""
    allocated: frozenset[tuple[str, str]]
    several_times: bool
    """Whether several claims can have the same device."""

    @classmethod
    async def of(cls, api: ListWatch, driver: str, node: str) -> "DeviceSupply":
        """What the API server has now. Raises ApiError."""
        slices = [found for found in await api.list(SLICES) if _is_for(found["spec"], driver, node)]
        newest = {
            pool: max(_generation(found) for found in slices if _pool(found) == pool) for pool in map(_pool, slices)
        }
        current = [found for found in slices if _generation(found) == newest[_pool(found)]]
        listed = [(_pool(found), device) for found in current for device in found["spec"].get("devices") or ()]
        allocated = {result for claim in await api.list(CLAIMS) for result in _results(claim, driver)}
        devices = frozenset((pool, device["name"]) for pool, device in listed)
        several = any(device.get("allowMultipleAllocations") for _, device in listed)
        return cls(driver, devices, frozenset(allocated) & devices, several)

    def allows(self, count: int) -> bool:
        """Whether a Pod can have this number of devices, now or after the end of other Pods. True if it is unknown."""
        return not self.devices or self.several_times or count <= len(self.devices)

    def problem(self, count: int) -> str:
        """Why a Pod waits for this number of devices, and what to do. Empty if there are enough."""
        has = f"driver {self.driver} has {_plural(len(self.devices))} on this node"
        if self.several_times or count <= len(self.devices) - len(self.allocated):
            return ""
        if count <= len(self.devices):
            return (
                f"{has}, and other claims have {len(self.allocated)}; delete their Pods, or add a driver for this Pod"
            )
        return f"{has}, and the Pod needs {count}; add a driver that has more, such as `add_driver({_names(count)})`"


async def until_enough(api: ListWatch, driver: str, node: str, count: int, timeout: float | None) -> None:
    """Waits while the driver publishes fewer devices. Raises TimeoutError if the Pod can never run, ApiError."""
    limit = _PUBLISH_LIMIT if timeout is None else min(timeout, _PUBLISH_LIMIT)

    async def is_enough() -> bool:
        return (await DeviceSupply.of(api, driver, node)).allows(count)

    if not await poll(is_enough, _INTERVAL, limit):
        supply = await DeviceSupply.of(api, driver, node)
        raise TimeoutError(f"waited {limit:g} s for ResourceSlices: {supply.problem(count)}")


def _names(count: int) -> str:
    names = [f"gpu-{number}" for number in range(count)]
    return str(names) if count < 4 else f"['gpu-0', ..., '{names[-1]}']"


def _plural(count: int) -> str:
    return f"{count} device" + ("" if count == 1 else "s")


def _is_for(spec: Object, driver: str, node: str) -> bool:
    return bool(spec["driver"] == driver and spec.get("nodeName", node) == node)


def _pool(found: Object) -> str:
    return str(found["spec"]["pool"]["name"])


def _generation(found: Object) -> int:
    return int(found["spec"]["pool"]["generation"])


def _results(claim: Object, driver: str) -> Iterator[tuple[str, str]]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    for result in (allocation.get("devices") or {}).get("results") or ():
        if result["driver"] == driver and not result.get("adminAccess"):
            yield result["pool"], result["device"]
