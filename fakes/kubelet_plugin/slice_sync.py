"""Keeps a driver's ResourceSlices in the API server as they were published.

A picture of them is held by list and watch; whenever it is not what was published, it is made so: a pool whose content
is another gets a higher generation, what is missing of one is made again, what is too much is deleted. Writes name the
version that they change, so nothing is written over unseen. What fails is tried again: after a second where the server
is away, ever later where it refuses. Repairs of what others do come a second apart at most.

Of two instances in a rolling update, the one that published last is left alone by the other.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from drahealth.fakes.cluster.api import NODES, SLICES, ApiError, Object
from drahealth.fakes.cluster.list_watch import ListWatch
from drahealth.fakes.kubelet_plugin.pools import (
    INSTANCE,
    Owner,
    Pool,
    Wanted,
    generation,
    slice_object,
    taints_since,
    wanted,
)
from drahealth.fakes.kubelet_plugin.slice_view import AGAIN, SliceView
from drahealth.fakes.waiting import first_of
from drahealth.proto.clock import Clock
from drahealth.proto.quoting import one_line

log = logging.getLogger(__name__)

LONGEST = 30.0
"""Seconds between attempts at most; the first one comes after `AGAIN`."""
STOPPED = "the driver has stopped, and publishes no more"
_RACES = 5
"""Times that others may come first before it counts as a failure."""
_RACE = ("Conflict", "AlreadyExists", "NotFound")


@dataclass(frozen=True, slots=True)
class PublishState:
    """How far publishing is."""

    in_sync: bool = False
    """The API server has what was published, as far as is known."""
    error: str = ""
    """Why not, after the last attempt."""
    generations: Mapping[str, int] = field(default_factory=dict)
    """Of each pool that was written or found right."""


class SliceSync:
    """The slices of one driver on one node. Nothing is looked at or touched before `publish`."""

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
        self._wanted: list[Wanted] = []
        self._pending = False
        """What was published last has not been made so once."""
        self._anew = False
        self._view = SliceView(api, owner, clock, self._disturbed)
        self._pools: dict[str, tuple[int, Wanted]] = {}
        self._stored: dict[str, tuple[Sequence[Object], Sequence[Object]]] = {}
        """What was written of a slice's devices, and what the server made of them."""
        self._written: dict[str, int] = {}
        """The generations of the slices that we wrote."""
        self._due, self._urgent, self._tried, self._in_sync, self._ended = (asyncio.Event() for _ in range(5))
        self._error: Exception | None = None
        self._keeping: asyncio.Task[None] | None = None

    # -- what one does with it

    @property
    def state(self) -> PublishState:
        """How far it is."""
        generations = {name: number for name, (number, _) in self._pools.items()}
        return PublishState(self._in_sync.is_set(), str(self._error or ""), generations)

    def publish(self, pools: Mapping[str, Pool], *, anew: bool = False) -> None:
        """These are the driver's pools from now on; `anew`: with a higher generation even if nothing changes.

        Returns at once. Raises ValueError for what is no plain data.
        """
        try:
            copied = {name: Pool(json.loads(json.dumps(list(pool.devices)))) for name, pool in pools.items()}
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"devices are published as plain data: {error}") from None
        self._wanted = wanted(self._owner, copied)
        self._anew = anew
        self._pending = True
        for no_more in (self._tried, self._in_sync, self._ended):
            no_more.clear()
        self._urgent.set()
        self._due.set()
        if self._keeping is None:
            self._keeping = asyncio.create_task(self._keep(), name=f"resources of {self._owner.driver}")

    async def tried(self) -> Exception | None:
        """What came of the first attempt to publish what was published last, or of a later one."""
        await first_of(self._tried.wait(), self._ended.wait())
        return self._error if self._tried.is_set() else ValueError(STOPPED)

    async def in_sync(self) -> None:
        """Returns once the API server has it. Raises ValueError if it was stopped before."""
        await first_of(self._in_sync.wait(), self._ended.wait())
        if not self._in_sync.is_set():
            raise ValueError(STOPPED)

    async def stop(self) -> None:
        """Ends all that goes on; what is published stays."""
        task, self._keeping = self._keeping, None
        self._in_sync.clear()
        self._ended.set()
        if task:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self._view.forget()

    async def withdraw(self) -> None:
        """Stops, and deletes the slices that it wrote, but not those that another instance wrote since."""
        await self.stop()
        for name, number in list(self._written.items()):
            try:
                if generation(await self._api.get(SLICES, name)) == number:
                    await self._api.delete(SLICES, name)
            except ApiError as error:
                if error.reason != "NotFound":
                    raise
            del self._written[name]

    # -- when

    async def _keep(self) -> None:
        failures = 0
        while True:
            await self._due.wait()
            self._due.clear()
            failures = 0 if self._urgent.is_set() else failures
            self._urgent.clear()
            repair, pools = not self._pending, self._wanted
            try:
                wrote = await self._sync()
            except Exception as error:
                self._failed(error, pools)
                away = isinstance(error, ApiError) and error.status == 503
                await self._pause(AGAIN if away else min(AGAIN * 2**failures, LONGEST))
                failures += not away
                self._due.set()
            else:
                failures = 0
                self._done(pools)
                if wrote and repair:
                    await self._pause(AGAIN)

    def _done(self, pools: Sequence[Wanted]) -> None:
        self._error = None
        if pools is self._wanted:
            self._tried.set()
            if not self._due.is_set():
                self._in_sync.set()

    def _failed(self, error: Exception, pools: Sequence[Wanted]) -> None:
        level = logging.DEBUG if str(error) == str(self._error) else logging.WARNING
        log.log(
            level, "driver %s cannot publish its resources: %s", one_line(self._owner.driver), one_line(str(error), 500)
        )
        self._error = error
        self._in_sync.clear()
        if pools is self._wanted:
            self._tried.set()
        if self._on_error:
            self._on_error(error)

    async def _pause(self, seconds: float) -> None:
        """Until so much time has passed, or something else is published."""
        await first_of(self._clock.sleep(seconds), self._urgent.wait())

    def _disturbed(self) -> None:
        self._in_sync.clear()
        self._due.set()

    # -- what is done about it

    async def _sync(self) -> bool:
        """Makes it so; whether anything had to be written."""
        for left in reversed(range(_RACES)):
            try:
                return await self._make_so()
            except ApiError as error:
                if error.reason not in _RACE or not left:
                    raise
                await self._view.forget()
        raise AssertionError("the last one returns or raises")

    async def _make_so(self) -> bool:
        pools, pending, anew = self._wanted, self._pending, self._anew
        there = await self._view.look()
        await self._know_node()
        wrote = False
        for pool in pools:
            found = [obj for obj in there.values() if obj["spec"]["pool"]["name"] == pool.pool]
            if pending or not self._is_anothers(pool, found):
                wrote |= await self._make_pool_so(pool, found, anew and pending)
        known = {pool.pool for pool in pools}
        for obj in [obj for obj in there.values() if obj["spec"]["pool"]["name"] not in known]:
            if pending or not self._is_of_another(obj):
                await self._delete(obj)
                wrote = True
        self._pools = {name: pool for name, pool in self._pools.items() if name in known}
        if pools is self._wanted:
            self._pending = self._anew = False
        return wrote

    async def _make_pool_so(self, pool: Wanted, found: Sequence[Object], anew: bool) -> bool:
        """Whether anything had to be written."""
        mine = {obj["metadata"]["name"]: obj for obj in found if obj["metadata"]["name"] in pool.slices}
        others = [obj for obj in found if obj["metadata"]["name"] not in pool.slices]
        number = None if anew else self._generation_to_keep(pool, mine)
        missing = [name for name in pool.slices if number is None or name not in mine]
        if number is None:
            number = 1 + self._view.highest.get(pool.pool, 0)
        since = taints_since(found)
        for name in missing:
            await self._write(slice_object(self._owner, pool, name, number, since), pool, mine.get(name))
        self._pools[pool.pool] = number, pool
        for obj in others:
            await self._delete(obj)
        return bool(missing or others)

    def _generation_to_keep(self, pool: Wanted, mine: Mapping[str, Object]) -> int | None:
        """That of the slices that are there, or were, if they are right as far as they go; None: there is a new one."""
        last, as_it_was = self._pools.get(pool.pool, (0, None))
        numbers = {generation(obj) for obj in mine.values()} or ({last} if as_it_was == pool else set[int]())
        right = all(self._is_right(pool, obj) for obj in mine.values())
        return self._view.highest[pool.pool] if right and numbers == {self._view.highest.get(pool.pool)} else None

    def _is_right(self, pool: Wanted, found: Object) -> bool:
        """Whether this slice says what it should, in the words of whoever stored it."""
        name = found["metadata"]["name"]
        sent, stored = self._stored.get(name, (None, ()))
        return pool.is_in(found) or (sent == pool.slices[name] and pool.is_in(found, stored))

    def _is_anothers(self, pool: Wanted, found: Sequence[Object]) -> bool:
        """Another instance has published this pool since we did."""
        newest = max(found, key=generation, default=None)
        return newest is not None and bool(
            self._is_of_another(newest) and generation(newest) > self._pools.get(pool.pool, (0, pool))[0]
        )

    def _is_of_another(self, obj: Object) -> bool:
        """Another instance wrote it: neither we, nor somebody who does not say that he is one."""
        instance = obj["metadata"].get("annotations", {}).get(INSTANCE)
        return instance is not None and instance != self._owner.instance

    # -- writes

    async def _write(self, new: Object, pool: Wanted, old: Object | None) -> None:
        name = new["metadata"]["name"]
        there = await self._view.look()
        stranger = there.get(name) if old is None else None
        if stranger:  # of another pool, which nobody can change
            await self._delete(stranger)
        if old is None:
            stored = await self._api.create(SLICES, new)
        else:
            stored = await self._api.replace(SLICES, {**new, "metadata": _merged(old["metadata"], new["metadata"])})
        self._written[name] = generation(new)
        self._view.wrote(stored)
        sent, kept = pool.slices[name], stored["spec"].get("devices") or ()
        self._stored[name] = sent, kept
        self._tell_of_losses(name, sent, kept)

    async def _delete(self, obj: Object) -> None:
        name = obj["metadata"]["name"]
        self._view.deleted(name)
        self._written.pop(name, None)
        try:
            await self._api.delete(SLICES, name)
        except ApiError as error:
            if error.reason != "NotFound":
                await self._view.forget()
                raise

    def _tell_of_losses(self, name: str, sent: Sequence[Object], stored: Sequence[Object]) -> None:
        """A server with a feature gate off drops fields without a word."""
        lost = sorted(
            {key for was, now in zip(sent, stored, strict=False) for key in was if was[key] and key not in now}
        )
        if lost:
            error = ValueError(f"the API server does not keep {', '.join(lost)} of the devices in slice {name}")
            log.warning("driver %s: %s", one_line(self._owner.driver), one_line(str(error), 500))
            if self._on_error:
                self._on_error(error)

    async def _know_node(self) -> None:
        """Once; where it may not be read, or is not there, the slices have no owner."""
        if not self._find_node:
            return
        try:
            uid = (await self._api.get(NODES, self._owner.node))["metadata"]["uid"]
        except ApiError as error:
            if error.status not in (403, 404):
                raise
            log.warning("the slices of %s have no owner: %s", one_line(self._owner.driver), one_line(str(error), 500))
            uid = ""
        self._owner = replace(self._owner, node_uid=uid)
        self._find_node = False


def _merged(old: Object, new: Object) -> Object:
    """Metadata with what others wrote there, but for whose it was."""
    return {**old, **new, "annotations": {**old.get("annotations", {}), **new["annotations"]}}
