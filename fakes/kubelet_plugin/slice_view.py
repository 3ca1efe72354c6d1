"""The picture of a driver's ResourceSlices in the API server, held by list and watch."""

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

AGAIN = 1.0
"""Seconds until it is listed again after a watch has ended."""


class SliceView:
    """What is there, by name. `disturbed()` is called for each change by others, and where some may be unseen."""

    def __init__(self, api: ListWatch, owner: Owner, clock: Clock, disturbed: Callable[[], None]) -> None:
        self.highest: dict[str, int] = {}
        """The highest generation of each pool that was ever seen."""
        self._api = api
        self._owner = owner
        self._clock = clock
        self._disturbed = disturbed
        self._there: dict[str, Object] | None = None
        self._echoes: set[str] = set()
        """Versions that we wrote, and have not seen come back."""
        self._watching: asyncio.Task[None] | None = None

    async def look(self) -> dict[str, Object]:
        """What is there; kept up to date from now on. Raises ApiError."""
        if self._there is None:
            found = await self._api.snapshot(SLICES)
            self._there = {}
            for obj in filter(self._owner.has, found.objects):
                self._see(obj)
            self._echoes.clear()
            self._watching = asyncio.create_task(self._watch(found.revision), name=f"slices of {self._owner.driver}")
        return self._there

    async def forget(self) -> None:
        """Looks away: what was seen is not the latest, or of no interest any more."""
        task, self._watching, self._there = self._watching, None, None
        if task:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def wrote(self, stored: Object) -> None:
        """We have written this; when it comes back it is no news."""
        self._echoes.add(stored["metadata"]["resourceVersion"])
        self._see(stored)

    def deleted(self, name: str) -> None:
        """We have deleted this, or are about to."""
        if self._there is not None:
            self._there.pop(name, None)

    async def _watch(self, since: str) -> None:
        try:
            async with aclosing(self._api.watch(SLICES, since=since)) as events:
                async for event in events:
                    self._take(event.type == "DELETED", event.object)
        except Exception as error:  # whatever it is, they are looked at again
            log.debug("slices of %s: %s", one_line(self._owner.driver), one_line(str(error), 500))
        await self._clock.sleep(AGAIN)
        self._there = self._watching = None
        self._disturbed()

    def _take(self, gone: bool, obj: Object) -> None:
        if self._there is None or not self._owner.has(obj):
            return
        metadata = obj["metadata"]
        known = self._there.get(metadata["name"])
        if metadata["resourceVersion"] in self._echoes:
            self._echoes.discard(metadata["resourceVersion"])
        elif not gone:
            self._see(obj)
            self._disturbed()
        elif known and known["metadata"]["uid"] == metadata["uid"]:
            del self._there[metadata["name"]]
            self._disturbed()

    def _see(self, obj: Object) -> None:
        pool = obj["spec"]["pool"]["name"]
        self.highest[pool] = max(self.highest.get(pool, 0), generation(obj))
        if self._there is not None:
            self._there[obj["metadata"]["name"]] = obj
