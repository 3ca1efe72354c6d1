"""A cache of a driver's ResourceSlices in the API server, kept current by list and watch."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing

from drahealth.fakes.cluster.api import SLICES, Object
from drahealth.fakes.cluster.list_watch import ListWatch
from drahealth.fakes.kubelet_plugin.pools import Owner, generation
from drahealth.proto.clock import Clock
from drahealth.proto.quoting import one_line

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
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

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
