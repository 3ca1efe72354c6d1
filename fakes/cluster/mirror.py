"""Current copies of objects, held by list and watch as by an informer in Kubernetes; and the statuses of Pods."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from types import MappingProxyType

from drahealth.fakes.cluster.api import PODS, Api, ApiError, ControlPlaneApi, Key, Kind, ListWatch, Object, key_of
from drahealth.fakes.cluster.pods import status_seen
from drahealth.fakes.waiting import Changes
from drahealth.proto.clock import SYSTEM_CLOCK, Clock
from drahealth.proto.events import StatusSeen

# The wait for a state of one object.


async def until_object(
    api: Api, kind: Kind, true: Callable[[Object], bool], seconds: float, namespace: str | None = None
) -> bool:
    """Waits until this is true of an object of the kind. False after so many seconds, or when the server ends."""
    try:
        async with asyncio.timeout(seconds), aclosing(api.watch(kind, namespace)) as changes:
            async for change in changes:
                if true(change.object):
                    return True
    except TimeoutError:
        pass
    return False


# A current copy of several kinds of objects.

Change = Callable[[Kind, Object | None, Object | None], None]
"""Called with the object before and after a change; None if there is none."""
Again = Callable[[ApiError | None], Awaitable[None]]
"""Awaited before a kind is listed again, with the error of the last attempt; None after a watch that ended without one.

Ends the mirror by raising an error.
"""


def when_ready(api: ControlPlaneApi) -> Again:
    """List again as soon as the server is ready. Raises `ApiError` if the server rejects the list."""

    async def again(error: ApiError | None) -> None:
        if error and error.status not in (410, 429) and error.status < 500:
            raise error
        await api.wait_ready()

    return again


def after(seconds: float, clock: Clock = SYSTEM_CLOCK) -> Again:
    """List again after this time, also after a rejection."""
    return lambda _: clock.sleep(seconds)


class Mirror:
    """Follows the kinds while `run` runs, also after restarts of the server."""

    def __init__(
        self,
        api: ListWatch,
        kinds: Iterable[Kind],
        changed: Change,
        *,
        again: Again,
        namespace: str | None = None,
        listed: Callable[[], None] = lambda: None,
    ) -> None:
        """A mirror of one namespace, or of all. `listed` is called after each list, and the changes that it showed."""
        self._api = api
        self._objects: dict[Kind, dict[Key, Object]] = {kind: {} for kind in kinds}
        self._changed = changed
        self._again = again
        self._namespace = namespace
        self._listed = listed
        self._behind = set(self._objects)
        self.whole = asyncio.Event()
        """Set while all kinds are listed and watched."""
        self.is_listing = False
        """Whether `changed` is called for a list. An object in it may have changed several times since the watch."""

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
        """Follows until cancelled. Raises the error of `again`."""
        async with asyncio.TaskGroup() as tasks:
            for kind in self._objects:
                tasks.create_task(self._follow(kind), name=f"mirror of {kind.plural}")

    async def _follow(self, kind: Kind) -> None:
        while True:
            problem = None
            try:
                await self._list_and_watch(kind)
            except ApiError as error:
                problem = error
            finally:
                self._behind.add(kind)
                self.whole.clear()
            await self._again(problem)

    async def _list_and_watch(self, kind: Kind) -> None:
        objects, revision = await self._api.snapshot(kind, self._namespace)
        self._replace_all(kind, objects)
        async for event in self._api.watch(kind, self._namespace, since=revision):
            self._apply(kind, event.object, gone=event.type == "DELETED")

    def _replace_all(self, kind: Kind, objects: list[Object]) -> None:
        old, new = self._objects[kind], {key_of(obj): obj for obj in objects}
        self._objects[kind] = new
        self._behind.discard(kind)
        if not self._behind:
            self.whole.set()
        self.is_listing = True
        try:
            for key, obj in old.items():
                if key not in new or not _is_same(obj, new[key]):
                    self._changed(kind, obj, None)
            for key, obj in new.items():
                before = old.get(key)
                self._changed(kind, before if before and _is_same(before, obj) else None, obj)
        finally:
            self.is_listing = False
        self._listed()

    def _apply(self, kind: Kind, obj: Object, gone: bool) -> None:
        """Ignores an event that is older than the stored object."""
        old = self._objects[kind].get(key_of(obj))
        if old is not None and _version(obj) < _version(old):
            return
        if not gone:
            self._objects[kind][key_of(obj)] = obj
            self._changed(kind, old, obj)
        elif old is not None:
            del self._objects[kind][key_of(obj)]
            self._changed(kind, old, None)


def _is_same(one: Object, other: Object) -> bool:
    """Whether it is not another object with the same name."""
    return bool(one["metadata"].get("uid") == other["metadata"].get("uid"))


def _version(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])


# The statuses of Pods, as a client of the API server sees them.


class PodWatch:
    """The newest status of each Pod, by UID, while `run` runs.

    `saw` gets each Pod with a status that differs from its last one, also those of the first list; and each deleted
    Pod, without a status.
    """

    def __init__(
        self,
        api: ListWatch,
        saw: Callable[[Object, StatusSeen | None], None],
        *,
        again: Again,
        namespace: str | None = None,
        also: Mapping[Kind, Callable[[Object | None, Object | None], None]] = MappingProxyType({}),
    ) -> None:
        """The Pods of one namespace, or of all.

        `also` are functions for all changes of other kinds; one for Pods is called before `saw`.
        """
        self.statuses: dict[str, StatusSeen] = {}
        self.changes = Changes()
        """Notifies of each change of a Pod."""
        self._saw = saw
        self._also = also
        self._mirror = Mirror(api, {**also, PODS: None}, self._changed, again=again, namespace=namespace)

    @property
    def is_listing(self) -> bool:
        """As of the mirror."""
        return self._mirror.is_listing

    def pods(self) -> list[Object]:
        """The Pods. Do not change them."""
        return self._mirror.objects(PODS)

    async def run(self) -> None:
        """Follows the Pods until cancelled. Raises the error of `again`."""
        await self._mirror.run()

    def _changed(self, kind: Kind, old: Object | None, new: Object | None) -> None:
        if kind in self._also:
            self._also[kind](old, new)
        if kind != PODS:
            return
        if new and (status := status_seen(new)) != self.statuses.get(status.uid):
            self.statuses[status.uid] = status
            self._saw(new, status)
        elif old and not new:
            self.statuses.pop(old["metadata"]["uid"], None)
            self._saw(old, None)
        self.changes.notify()
