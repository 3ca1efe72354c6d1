"""The statuses of one Pod, as a client of the API server sees them."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace

from drahealth.fakes.cluster.api import PODS, ApiError, Object, WatchEvent
from drahealth.fakes.cluster.list_watch import ListWatch
from drahealth.fakes.cluster.pod_status import status_seen
from drahealth.fakes.waiting import Changes
from drahealth.proto.events import PodDeleted, StatusSeen
from drahealth.suites.checking.kubelet.waiting import within
from drahealth.suites.checking.lab import Lab

_RETRY = 0.5
"""Seconds until a watch that has ended is opened again."""


class PodWatch:
    """Records each different status of the Pod with this UID, and its deletion."""

    def __init__(self, lab: Lab, api: ListWatch, uid: str) -> None:
        self._lab = lab
        self._api = api
        self._uid = uid
        self._changes = Changes()
        self.status: StatusSeen | None = None
        """The newest status."""
        self.deleted = False

    async def follow(self) -> None:
        """Follows the API server, until cancelled."""
        while True:
            try:
                async with aclosing(self._api.watch(PODS)) as events:
                    async for event in events:
                        self._apply(event)
            except ApiError:  # the watch starts again
                pass
            await self._lab.subject.clock.sleep(_RETRY)

    async def until(self, limit: float, condition: Callable[[], bool]) -> bool:
        """Waits until it is true; looks again after each change. False at the limit."""
        try:
            await within(self._lab.subject.clock, limit, self._changes.until(condition))
        except TimeoutError:
            return False
        return True

    def _apply(self, event: WatchEvent) -> None:
        metadata = event.object["metadata"]
        if metadata["uid"] != self._uid:
            return
        if event.type == "DELETED":
            self.deleted = True
            self._lab.record(PodDeleted(metadata["name"], self._uid, metadata["namespace"]))
        elif (seen := _seen(event.object)) != self.status:
            self.status = seen
            self._lab.record(seen)
        self._changes.notify()


@asynccontextmanager
async def watched_pod(lab: Lab, api: ListWatch, uid: str) -> AsyncGenerator[PodWatch, None]:
    """The statuses of a Pod, until the end of the block."""
    watch = PodWatch(lab, api, uid)
    task = asyncio.create_task(watch.follow(), name="watch of the Pod")
    try:
        yield watch
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _seen(pod: Object) -> StatusSeen:
    return replace(status_seen(pod), namespace=pod["metadata"]["namespace"])
