"""The client of a fleet: a limited number of requests at once, and objects without their managed fields."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable

from drahealth.fakes.cluster.api import ApiError, Kind, ListWatch, Object, Snapshot, WatchEvent

AT_ONCE = 24
"""Requests at once. More do not make an API server on two cores faster, and each needs a connection."""


class FleetClient:
    """Implements `ListWatch` for the objects that `source` selects.

    The API server keeps the managed fields of an object that is written without them.
    """

    def __init__(self, source: ListWatch, limit: asyncio.Semaphore) -> None:
        self._source = source
        self._limit = limit

    async def create(self, kind: Kind, obj: Object) -> Object:
        """Creates and returns the stored object."""
        return await self._limited(self._source.create(kind, obj))

    async def kind_of(self, obj: Object) -> Kind:
        """The kind of an object."""
        return await self._source.kind_of(obj)

    async def get(self, kind: Kind, name: str, namespace: str | None = None) -> Object:
        """The object; 404 NotFound if it does not exist."""
        return await self._limited(self._source.get(kind, name, namespace))

    async def list(self, kind: Kind, namespace: str | None = None) -> list[Object]:
        """All objects of the kind."""
        return (await self.snapshot(kind, namespace)).objects

    async def replace(self, kind: Kind, obj: Object) -> Object:
        """Stores spec and metadata."""
        return await self._limited(self._source.replace(kind, obj))

    async def replace_status(self, kind: Kind, obj: Object) -> Object:
        """Stores the status."""
        return await self._limited(self._source.replace_status(kind, obj))

    async def delete(self, kind: Kind, name: str, namespace: str | None = None, grace: int | None = None) -> None:
        """Deletes the object."""
        async with self._limit:
            await self._source.delete(kind, name, namespace, grace)

    async def snapshot(self, kind: Kind, namespace: str | None = None) -> Snapshot:
        """The list, and its revision."""
        found = await self._source.snapshot(kind, namespace)
        return Snapshot([_slim(obj) for obj in found.objects], found.revision)

    async def watch(
        self, kind: Kind, namespace: str | None = None, since: str | None = None
    ) -> AsyncGenerator[WatchEvent, None]:
        """The changes, as `ListWatch` has it."""
        async for event in self._source.watch(kind, namespace, since):
            _slim(event.object)
            yield event

    async def _limited(self, call: Awaitable[Object]) -> Object:
        async with self._limit:
            return _slim(await call)


def is_missing(error: ApiError) -> bool:
    """Whether the object does not exist."""
    return error.status == 404


def _slim(obj: Object) -> Object:
    """Removes half of the memory of most objects."""
    obj.get("metadata", {}).pop("managedFields", None)
    return obj
