"""The pools that a driver publishes, their ResourceSlices, and their reconciliation in the API server."""

import asyncio
import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from drahealth.fakes.cluster.api import NODES, SLICES, ApiError, ListWatch, Object
from drahealth.fakes.waiting import cancel_and_wait, first_of
from drahealth.proto.clock import Clock
from drahealth.proto.quoting import one_line

# The pools that a driver publishes, and their ResourceSlices. Pure.
#
# Source: API resource.k8s.io/v1 `ResourceSliceSpec`, with its limits; kubeletplugin, `PublishResources`.

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


# A cache of a driver's ResourceSlices in the API server, kept current by list and watch.

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
"""Seconds to wait before the next list after a watch has ended."""


class SliceCache:
    """ResourceSlices by name. Calls `on_change()` after each change by others, and when it may have missed one."""

    def __init__(self, api: ListWatch, owner: Owner, clock: Clock, on_change: Callable[[], None]) -> None:
        self.highest: dict[str, int] = {}
        """The highest observed generation of each pool."""
        self._api = api
        self._owner = owner
        self._clock = clock
        self._on_change = on_change
        self._slices: dict[str, Object] | None = None
        self._own_versions: set[str] = set()
        """Resource versions of our writes that the watch has not delivered yet."""
        self._watching: asyncio.Task[None] | None = None

    async def slices(self) -> dict[str, Object]:
        """Lists the slices, and watches them from then on. Raises ApiError."""
        if self._slices is None:
            found = await self._api.snapshot(SLICES)
            self._slices = {}
            for obj in filter(self._owner.has, found.objects):
                self._store(obj)
            self._own_versions.clear()
            self._watching = asyncio.create_task(self._watch(found.revision), name=f"slices of {self._owner.driver}")
        return self._slices

    async def reset(self) -> None:
        """Stops the watch and drops the cache; the next `slices` lists again."""
        task, self._watching, self._slices = self._watching, None, None
        if task:
            await cancel_and_wait(task)

    def record_write(self, stored: Object) -> None:
        """Stores our write; its watch event is not a change by others."""
        self._own_versions.add(stored["metadata"]["resourceVersion"])
        self._store(stored)

    def record_delete(self, name: str) -> None:
        """Drops a slice that we have deleted or are deleting."""
        if self._slices is not None:
            self._slices.pop(name, None)

    async def _watch(self, since: str) -> None:
        try:
            async with aclosing(self._api.watch(SLICES, since=since)) as events:
                async for event in events:
                    self._apply(event.type == "DELETED", event.object)
        except Exception as error:  # after any error, list again
            log.debug("slices of %s: %s", one_line(self._owner.driver), one_line(str(error), 500))
        await self._clock.sleep(RETRY_SECONDS)
        self._slices = self._watching = None
        self._on_change()

    def _apply(self, deleted: bool, obj: Object) -> None:
        if self._slices is None or not self._owner.has(obj):
            return
        metadata = obj["metadata"]
        known = self._slices.get(metadata["name"])
        if metadata["resourceVersion"] in self._own_versions:
            self._own_versions.discard(metadata["resourceVersion"])
        elif not deleted:
            self._store(obj)
            self._on_change()
        elif known and known["metadata"]["uid"] == metadata["uid"]:
            del self._slices[metadata["name"]]
            self._on_change()

    def _store(self, obj: Object) -> None:
        pool = obj["spec"]["pool"]["name"]
        self.highest[pool] = max(self.highest.get(pool, 0), generation(obj))
        if self._slices is not None:
            self._slices[obj["metadata"]["name"]] = obj


# Reconcile a driver's ResourceSlices in the API server with the published pools.
#
# List and watch keep a cache of the slices. If the cache differs from the published pools, the sync writes: a pool
# with other content gets a higher generation, missing slices are created, surplus slices are deleted. Each update
# carries the resource version, so it never overwrites an unseen change. A failed sync is retried: after one second
# while the server is unavailable, with growing delays after other errors. Repairs of changes by others are at least
# one second apart.
#
# In a rolling update, an instance does not change the slices of an instance that published later.


MAX_RETRY_SECONDS = 30.0
"""Maximum seconds between attempts; the first retry comes after `RETRY_SECONDS`."""
STOPPED = "the driver has stopped and does not publish resources"
_MAX_CONFLICTS = 5
"""Conflicting writes of others in one sync, after which it fails."""
_CONFLICTS = ("Conflict", "AlreadyExists", "NotFound")


@dataclass(frozen=True, slots=True)
class PublishState:
    """State of publishing."""

    in_sync: bool = False
    """The API server has the published pools, as far as the cache knows."""
    error: str = ""
    """Error of the last attempt; empty without one."""
    generations: Mapping[str, int] = field(default_factory=dict)
    """Generation of each pool that was written or found correct."""


class SliceSync:
    """Keeps the slices of one driver on one node. Reads and writes nothing before `publish`."""

    def __init__(
        self,
        api: ListWatch,
        owner: Owner,
        clock: Clock,
        on_error: Callable[[Exception], None] | None = None,
        *,
        find_node: bool = False,
    ) -> None:
        self._api = api
        self._owner = owner
        self._clock = clock
        self._on_error = on_error
        self._find_node = find_node
        self._desired: list[DesiredPool] = []
        self._pending = False
        """The last published pools have not been synced yet."""
        self._new_generation = False
        self._cache = SliceCache(api, owner, clock, self._on_change)
        self._pools: dict[str, tuple[int, DesiredPool]] = {}
        self._stored: dict[str, tuple[Sequence[Object], Sequence[Object]]] = {}
        """Devices by slice: as sent, and as the API server stored them."""
        self._written: dict[str, int] = {}
        """Generations of the slices that this instance wrote."""
        self._due, self._urgent, self._attempted, self._in_sync, self._ended = (asyncio.Event() for _ in range(5))
        self._error: Exception | None = None
        self._running: asyncio.Task[None] | None = None

    # -- interface

    @property
    def state(self) -> PublishState:
        """The state of publishing."""
        generations = {name: number for name, (number, _) in self._pools.items()}
        return PublishState(self._in_sync.is_set(), str(self._error or ""), generations)

    def publish(self, pools: Mapping[str, Pool], *, new_generation: bool = False) -> None:
        """Replaces the driver's pools; `new_generation`: increase the generation even if nothing changes.

        Returns at once. Raises ValueError if a device is not plain data.
        """
        try:
            copied = {name: Pool(json.loads(json.dumps(list(pool.devices)))) for name, pool in pools.items()}
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"devices must be plain JSON data: {error}") from None
        self._desired = desired_pools(self._owner, copied)
        self._new_generation = new_generation
        self._pending = True
        for event in (self._attempted, self._in_sync, self._ended):
            event.clear()
        self._urgent.set()
        self._due.set()
        if self._running is None:
            self._running = asyncio.create_task(self._run(), name=f"resources of {self._owner.driver}")

    async def attempted(self) -> Exception | None:
        """Waits for an attempt to sync the last published pools; returns its error, or None."""
        await first_of(self._attempted.wait(), self._ended.wait())
        return self._error if self._attempted.is_set() else ValueError(STOPPED)

    async def in_sync(self) -> None:
        """Waits until the API server has the published pools. Raises ValueError if the sync stops first."""
        await first_of(self._in_sync.wait(), self._ended.wait())
        if not self._in_sync.is_set():
            raise ValueError(STOPPED)

    async def stop(self) -> None:
        """Stops the sync; the slices stay."""
        task, self._running = self._running, None
        self._in_sync.clear()
        self._ended.set()
        if task:
            await cancel_and_wait(task)
        await self._cache.reset()

    async def withdraw(self) -> None:
        """Stops the sync, and deletes the slices it wrote, except those that another instance has written since."""
        await self.stop()
        for name, number in list(self._written.items()):
            try:
                if generation(await self._api.get(SLICES, name)) == number:
                    await self._api.delete(SLICES, name)
            except ApiError as error:
                if error.reason != "NotFound":
                    raise
            del self._written[name]

    # -- schedule

    async def _run(self) -> None:
        failures = 0
        while True:
            await self._due.wait()
            self._due.clear()
            failures = 0 if self._urgent.is_set() else failures
            self._urgent.clear()
            repair, pools = not self._pending, self._desired
            try:
                wrote = await self._sync()
            except Exception as error:
                self._failed(error, pools)
                unavailable = isinstance(error, ApiError) and error.status == 503
                await self._pause(RETRY_SECONDS if unavailable else min(RETRY_SECONDS * 2**failures, MAX_RETRY_SECONDS))
                failures += not unavailable
                self._due.set()
            else:
                failures = 0
                self._done(pools)
                if wrote and repair:
                    await self._pause(RETRY_SECONDS)

    def _done(self, pools: Sequence[DesiredPool]) -> None:
        self._error = None
        if pools is self._desired:
            self._attempted.set()
            if not self._due.is_set():
                self._in_sync.set()

    def _failed(self, error: Exception, pools: Sequence[DesiredPool]) -> None:
        level = logging.DEBUG if str(error) == str(self._error) else logging.WARNING
        log.log(
            level,
            "driver %s failed to publish ResourceSlices: %s",
            one_line(self._owner.driver),
            one_line(str(error), 500),
        )
        self._error = error
        self._in_sync.clear()
        if pools is self._desired:
            self._attempted.set()
        if self._on_error:
            self._on_error(error)

    async def _pause(self, seconds: float) -> None:
        """Waits so many seconds, or until other pools are published."""
        await first_of(self._clock.sleep(seconds), self._urgent.wait())

    def _on_change(self) -> None:
        self._in_sync.clear()
        self._due.set()

    # -- sync

    async def _sync(self) -> bool:
        """Reconciles, and retries after conflicts; returns whether anything was written."""
        for left in reversed(range(_MAX_CONFLICTS)):
            try:
                return await self._reconcile()
            except ApiError as error:
                if error.reason not in _CONFLICTS or not left:
                    raise
                await self._cache.reset()
        raise AssertionError("the last one returns or raises")

    async def _reconcile(self) -> bool:
        pools, pending, new_generation = self._desired, self._pending, self._new_generation
        found_slices = await self._cache.slices()
        await self._find_node_uid()
        wrote = False
        for pool in pools:
            found = [obj for obj in found_slices.values() if obj["spec"]["pool"]["name"] == pool.pool]
            if pending or not self._belongs_to_another(pool, found):
                wrote |= await self._reconcile_pool(pool, found, new_generation and pending)
        known = {pool.pool for pool in pools}
        for obj in [obj for obj in found_slices.values() if obj["spec"]["pool"]["name"] not in known]:
            if pending or not self._is_from_another(obj):
                await self._delete(obj)
                wrote = True
        self._pools = {name: pool for name, pool in self._pools.items() if name in known}
        if pools is self._desired:
            self._pending = self._new_generation = False
        return wrote

    async def _reconcile_pool(self, pool: DesiredPool, found: Sequence[Object], new_generation: bool) -> bool:
        """Reconciles one pool; returns whether anything was written."""
        mine = {obj["metadata"]["name"]: obj for obj in found if obj["metadata"]["name"] in pool.slices}
        others = [obj for obj in found if obj["metadata"]["name"] not in pool.slices]
        number = None if new_generation else self._generation_to_keep(pool, mine)
        missing = [name for name in pool.slices if number is None or name not in mine]
        if number is None:
            number = 1 + self._cache.highest.get(pool.pool, 0)
        since = taint_times(found)
        for name in missing:
            await self._write(slice_object(self._owner, pool, name, number, since), pool, mine.get(name))
        self._pools[pool.pool] = number, pool
        for obj in others:
            await self._delete(obj)
        return bool(missing or others)

    def _generation_to_keep(self, pool: DesiredPool, mine: Mapping[str, Object]) -> int | None:
        """The generation of the existing slices if their content is correct; None: a new generation is needed."""
        last, previous = self._pools.get(pool.pool, (0, None))
        numbers = {generation(obj) for obj in mine.values()} or ({last} if previous == pool else set[int]())
        correct = all(self._is_correct(pool, obj) for obj in mine.values())
        return self._cache.highest[pool.pool] if correct and numbers == {self._cache.highest.get(pool.pool)} else None

    def _is_correct(self, pool: DesiredPool, found: Object) -> bool:
        """Whether a slice has the desired content, as we sent it or as the API server stored it."""
        name = found["metadata"]["name"]
        sent, stored = self._stored.get(name, (None, ()))
        return pool.matches(found) or (sent == pool.slices[name] and pool.matches(found, stored))

    def _belongs_to_another(self, pool: DesiredPool, found: Sequence[Object]) -> bool:
        """Whether another instance has published this pool since we did."""
        newest = max(found, key=generation, default=None)
        return newest is not None and bool(
            self._is_from_another(newest) and generation(newest) > self._pools.get(pool.pool, (0, pool))[0]
        )

    def _is_from_another(self, obj: Object) -> bool:
        """Whether another instance of the driver wrote the slice; other clients set no annotation."""
        instance = obj["metadata"].get("annotations", {}).get(INSTANCE)
        return instance is not None and instance != self._owner.instance

    # -- writes

    async def _write(self, new: Object, pool: DesiredPool, old: Object | None) -> None:
        name = new["metadata"]["name"]
        other = (await self._cache.slices()).get(name) if old is None else None
        if other:  # the name is used by another pool, and the pool of a slice is immutable
            await self._delete(other)
        if old is None:
            stored = await self._api.create(SLICES, new)
        else:
            stored = await self._api.replace(SLICES, {**new, "metadata": _merged(old["metadata"], new["metadata"])})
        self._written[name] = generation(new)
        self._cache.record_write(stored)
        sent, kept = pool.slices[name], stored["spec"].get("devices") or ()
        self._stored[name] = sent, kept
        self._warn_of_lost_fields(name, sent, kept)

    async def _delete(self, obj: Object) -> None:
        name = obj["metadata"]["name"]
        self._cache.record_delete(name)
        self._written.pop(name, None)
        try:
            await self._api.delete(SLICES, name)
        except ApiError as error:
            if error.reason != "NotFound":
                await self._cache.reset()
                raise

    def _warn_of_lost_fields(self, name: str, sent: Sequence[Object], stored: Sequence[Object]) -> None:
        """Logs and reports fields that the API server dropped, as it does when a feature gate is off."""
        lost = sorted(
            {key for was, now in zip(sent, stored, strict=False) for key in was if was[key] and key not in now}
        )
        if lost:
            error = ValueError(f"the API server dropped {', '.join(lost)} of the devices in ResourceSlice {name}")
            log.warning("driver %s: %s", one_line(self._owner.driver), one_line(str(error), 500))
            if self._on_error:
                self._on_error(error)

    async def _find_node_uid(self) -> None:
        """Reads the node's uid once; if the Node is forbidden or missing, the slices get no owner."""
        if not self._find_node:
            return
        try:
            uid = (await self._api.get(NODES, self._owner.node))["metadata"]["uid"]
        except ApiError as error:
            if error.status not in (403, 404):
                raise
            log.warning(
                "ResourceSlices of driver %s get no owner: %s", one_line(self._owner.driver), one_line(str(error), 500)
            )
            uid = ""
        self._owner = replace(self._owner, node_uid=uid)
        self._find_node = False


def _merged(old: Object, new: Object) -> Object:
    """Metadata that keeps the annotations of others."""
    return {**old, **new, "annotations": {**old.get("annotations", {}), **new["annotations"]}}
