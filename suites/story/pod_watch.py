"""What a client sees of a namespace's pods: their statuses as they change, and that they are gone."""

import asyncio
from contextlib import suppress

from drahealth.fakes.api import PODS, Api, ApiError, Object
from drahealth.proto.events import StatusSeen, Step
from drahealth.suites.story.history import History
from drahealth.suites.story.workload import status_seen

_PAUSE = 0.05
"""Seconds until a watch that has ended is opened again, as when the API server restarts."""


class PodWatch:
    """`statuses` has the newest of each pod, by its uid; each change goes into the history."""

    def __init__(self, api: Api, namespace: str, history: History) -> None:
        self.statuses: dict[str, StatusSeen] = {}
        self._api = api
        self._namespace = namespace
        self._history = history
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._follow(), name=f"pods of {self._namespace}")

    async def stop(self) -> None:
        """Sees nothing more; harmless on one that never started."""
        if self._task:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _follow(self) -> None:
        while True:
            with suppress(ApiError):
                async for event in self._api.watch(PODS, self._namespace):
                    self._saw(event.type, event.object)
            await asyncio.sleep(_PAUSE)

    def _saw(self, kind: str, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        if kind == "DELETED":
            self.statuses.pop(uid, None)
            self._history.observe(Step(f"pod {pod['metadata']['name']} is gone"))
            return
        seen = status_seen(pod)
        if seen != self.statuses.get(uid):
            self.statuses[uid] = seen
            self._history.observe(seen)
