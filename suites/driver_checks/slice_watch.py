"""The ResourceSlices of a driver process, live."""

from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress

from drahealth.fakes.cluster.api import SLICES, ApiError, ListWatch, Object, WatchEvent
from drahealth.fakes.waiting import Changes, in_background
from drahealth.proto.events import SliceChanged, SlicesListed
from drahealth.suites.driver_checks.experiments import Incomplete
from drahealth.suites.driver_checks.lab import Lab
from drahealth.suites.driver_checks.observed import PUBLISH_LIMIT

POOLS_LIMIT = 10.0
"""Seconds from the first complete pool to one with a device that is needed."""
_RETRY = 0.5
_NOT_FOUND = 404


class SliceWatch:
    """All ResourceSlices that may be of the driver process. After `list` it records each change."""

    def __init__(self, lab: Lab, api: ListWatch, driver: str) -> None:
        self._lab = lab
        self._api = api
        self._driver = driver
        self._slices: dict[str, Object] = {}
        self._deleting: set[str] = set()
        self.recording = False
        """Whether changes are recorded: after the first `list`."""
        self._without_node = False
        """Whether the driver has slices of no node in an API server of others."""
        self._changes = Changes()

    def of_driver(self, driver: str) -> tuple[Object, ...]:
        """The slices with the driver's name, by their names."""
        return tuple(self._slices[name] for name in sorted(self._slices) if _driver(self._slices[name]) == driver)

    async def complete(
        self, driver: str, limit: float = PUBLISH_LIMIT, *, devices: Collection[str] = (), count: int = 1
    ) -> tuple[Object, ...]:
        """Waits until all pools of the driver are complete, and returns its slices; at the limit, those it has.

        A driver publishes one pool after another. So it waits some more seconds for devices with these names, and for
        so many devices in all.

        Raises Incomplete if they are of several nodes: then the node of the driver is unknown. Also if there are only
        some of no node in a cluster: they can be of another instance of the driver.
        """
        if await self._until(limit, lambda: are_complete(self.of_driver(driver))):
            await self._until(POOLS_LIMIT, lambda: self._has(driver, devices, count))
        found = self.of_driver(driver)
        if not found and self._without_node:
            raise Incomplete(f"{driver} has only ResourceSlices without a node name, which another instance can own")
        if len(nodes := sorted({str(one["spec"]["nodeName"]) for one in found if one["spec"].get("nodeName")})) > 1:
            raise Incomplete(f"{driver} has ResourceSlices of several nodes: {', '.join(nodes[:5])}; pass --node-name")
        return found

    async def returned(self, deleted: Object, limit: float) -> bool:
        """Waits until the devices of a deleted slice are published; returns whether they are."""
        await self._catch_up()
        pool, wanted = _pool(deleted), set(_devices(deleted))

        def is_back() -> bool:
            slices = self.of_driver(_driver(deleted))
            found = {name for one in slices if _pool(one) == pool for name in _devices(one)}
            return wanted <= found and are_complete(slices)

        return await self._until(limit, is_back)

    async def tainted(self, driver: str, device: str, key: str, effect: str, limit: float, *, so: bool = True) -> bool:
        """Waits until a device, as POOL/NAME, has a taint of this key and effect, or with `so` False has none.

        Returns whether it has reached this state at the end.
        """
        return await self._until(limit, lambda: self._is_tainted(driver, device, key, effect) is so)

    def _is_tainted(self, driver: str, device: str, key: str, effect: str) -> bool:
        return any(
            (taint.get("key"), taint.get("effect")) == (key, effect)
            for one in newest(self.of_driver(driver))
            for published in one["spec"].get("devices") or ()
            if f"{_pool(one)}/{published['name']}" == device
            for taint in published.get("taints") or ()
        )

    def list(self) -> None:
        """Records all slices now, and from now on each change."""
        self._lab.record(SlicesListed(tuple(self._slices[name] for name in sorted(self._slices))))
        self.recording = True

    async def delete(self, found: Object) -> None:
        """Deletes a slice, and waits until the watch shows it. Raises ApiError.

        Drivers replace their slices as soon as one of them is deleted, so it can be gone already.
        """
        name = found["metadata"]["name"]
        self._deleting.add(name)
        try:
            await self._api.delete(SLICES, name)
        except ApiError as error:
            if error.status != _NOT_FOUND:
                raise
            self._deleting.discard(name)
        await self._until(PUBLISH_LIMIT, lambda: name not in self._deleting)

    async def follow(self) -> None:
        """Follows the API server, until cancelled."""
        while True:
            try:
                async for event in self._api.watch(SLICES):
                    self._apply(event)
            except ApiError:  # the watch starts again
                pass
            await self._lab.subject.clock.sleep(_RETRY)

    def _apply(self, event: WatchEvent) -> None:
        spec = event.object["spec"]
        self._without_node |= spec.get("driver") == self._driver and not spec.get("nodeName")
        name, old = event.object["metadata"]["name"], self._slices.get(event.object["metadata"]["name"])
        if not self._lab.subject.owns(event.object, self._driver) or (
            old and _revision(old) == _revision(event.object)
        ):
            return
        if event.type == "DELETED":
            self._slices.pop(name, None)
        else:
            self._slices[name] = event.object
        by_us = event.type == "DELETED" and name in self._deleting
        if by_us:
            self._deleting.remove(name)
        if self.recording:
            change = "MODIFIED" if event.type == "ADDED" and old else event.type
            self._lab.record(SliceChanged(change, event.object, "check" if by_us else "driver"))
        self._changes.notify()

    def _has(self, driver: str, devices: Collection[str], count: int) -> bool:
        """Whether the pools of the driver are complete, and have these devices, and so many."""
        slices = self.of_driver(driver)
        names = [name for one in newest(slices) for name in _devices(one)]
        return are_complete(slices) and set(devices) <= set(names) and len(names) >= count

    async def _catch_up(self) -> None:
        """Waits until the watch has shown that known slices were changed or deleted: events can be late."""
        with suppress(ApiError):
            current = {_identity(one) for one in await self._api.list(SLICES)}
            outdated = {name: one for name, one in self._slices.items() if _identity(one) not in current}
            await self._until(
                PUBLISH_LIMIT, lambda: all(self._slices.get(name) is not outdated[name] for name in outdated)
            )

    async def _until(self, limit: float, condition: Callable[[], bool]) -> bool:
        return await self._changes.until_within(condition, limit, self._lab.subject.clock)


@asynccontextmanager
async def watched_slices(lab: Lab, driver: str) -> AsyncGenerator[SliceWatch, None]:
    """The slices of the API server, for a driver with this name. The lab's subject must have an API server."""
    assert lab.subject.api, "the driver has no API server"
    watch = SliceWatch(lab, lab.subject.api, driver)
    async with in_background(watch.follow(), "watch of ResourceSlices"):
        yield watch


def are_complete(slices: Sequence[Object]) -> bool:
    """Whether there are slices with devices, and each pool has all slices of its newest generation."""
    pools: dict[str, list[Object]] = defaultdict(list)
    for one in slices:
        pools[_pool(one)].append(one)
    return any(map(_devices, slices)) and all(map(_is_whole, pools.values()))


def newest(slices: Sequence[Object]) -> list[Object]:
    """The slices of the newest generation of each pool, which are the valid ones."""
    generations: dict[str, int] = {}
    for one in slices:
        generations[_pool(one)] = max(_generation(one), generations.get(_pool(one), 0))
    return [one for one in slices if _generation(one) == generations[_pool(one)]]


def _is_whole(slices: list[Object]) -> bool:
    current = newest(slices)
    wanted: int = current[0]["spec"]["pool"].get("resourceSliceCount", 1)
    return len(current) >= wanted


def _driver(found: Object) -> str:
    return str(found["spec"].get("driver", ""))


def _pool(found: Object) -> str:
    return str(found["spec"]["pool"]["name"])


def _generation(found: Object) -> int:
    return int(found["spec"]["pool"].get("generation", 0))


def _devices(found: Object) -> list[str]:
    return [device["name"] for device in found["spec"].get("devices") or ()]


def _identity(found: Object) -> tuple[str, str]:
    return found["metadata"]["name"], _revision(found)


def _revision(found: Object) -> str:
    return str(found["metadata"].get("resourceVersion", ""))
