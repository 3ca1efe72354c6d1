"""A current copy of several kinds of objects, held by list and watch: an informer in Kubernetes."""

import asyncio
from collections.abc import Callable, Iterable

from drahealth.fakes.cluster.api import ApiError, ControlPlaneApi, Kind, Object
from drahealth.fakes.cluster.api_server.storage import Key, key_of

Change = Callable[[Kind, Object | None, Object | None], None]
"""Called with the object before and after a change; None if there is none."""


class Mirror:
    """Follows the kinds while `run` runs, also after restarts of the server."""

    def __init__(self, api: ControlPlaneApi, kinds: Iterable[Kind], changed: Change) -> None:
        self._api = api
        self._objects: dict[Kind, dict[Key, Object]] = {kind: {} for kind in kinds}
        self._changed = changed
        self._behind = set(self._objects)
        self.whole = asyncio.Event()
        """Set while all kinds are listed and watched."""

    def objects(self, kind: Kind) -> list[Object]:
        """All objects of the kind, the oldest first. They belong to the mirror: do not change them."""
        return list(self._objects[kind].values())

    def get(self, kind: Kind, name: str, namespace: str = "") -> Object | None:
        return self._objects[kind].get((namespace, name))

    def store(self, kind: Kind, obj: Object) -> None:
        """Stores the result of the caller's own write before the watch delivers it; does not call `changed`."""
        known = self._objects[kind].get(key_of(obj))
        if known is None or _version(known) < _version(obj):
            self._objects[kind][key_of(obj)] = obj

    async def run(self) -> None:
        """Follows until cancelled. Raises `ApiError` if the server rejects it; retries if the server is unavailable or
        overloaded.
        """
        async with asyncio.TaskGroup() as tasks:
            for kind in self._objects:
                tasks.create_task(self._follow(kind), name=f"mirror of {kind.plural}")

    async def _follow(self, kind: Kind) -> None:
        while True:
            try:
                await self._list_and_watch(kind)
            except ApiError as error:
                if error.status not in (410, 429) and error.status < 500:
                    raise
            finally:
                self._behind.add(kind)
                self.whole.clear()
            await self._api.wait_ready()

    async def _list_and_watch(self, kind: Kind) -> None:
        objects, revision = await self._api.snapshot(kind)
        self._replace_all(kind, objects)
        async for event in self._api.watch(kind, since=revision):
            self._apply(kind, event.object, gone=event.type == "DELETED")

    def _replace_all(self, kind: Kind, objects: list[Object]) -> None:
        old = self._objects[kind]
        self._objects[kind] = {key_of(obj): obj for obj in objects}
        self._behind.discard(kind)
        if not self._behind:
            self.whole.set()
        for key in old.keys() | self._objects[kind].keys():
            self._changed(kind, old.get(key), self._objects[kind].get(key))

    def _apply(self, kind: Kind, obj: Object, gone: bool) -> None:
        """Ignores an event that is older than the stored object."""
        old = self._objects[kind].get(key_of(obj))
        if old is not None and _version(obj) < _version(old):
            return
        if gone:
            self._objects[kind].pop(key_of(obj), None)
        else:
            self._objects[kind][key_of(obj)] = obj
        self._changed(kind, old, None if gone else obj)


def _version(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])
