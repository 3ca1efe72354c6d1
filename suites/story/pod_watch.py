"""A client's view of the pods in a namespace: status changes, deletions, devices, and events on the pods."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from drahealth.fakes.cluster.api import CLAIMS, EVENTS, PODS, ApiError, Kind, Object
from drahealth.fakes.cluster.list_watch import ListWatch
from drahealth.fakes.cluster.pod_status import status_seen
from drahealth.fakes.cluster.scheduling.claims import is_allocated
from drahealth.proto.events import DevicesHeld, EventSeen, PodRewritten, PodStateSeen, StatusSeen, Step
from drahealth.suites.story.history import History
from drahealth.suites.story.holdings import claim_names, devices_held
from drahealth.suites.story.pod_states import is_rewritten, state_seen

_PAUSE = 0.05
"""Seconds until an ended watch is opened again, for example after a restart of the API server."""
_LISTED = "LISTED"
"""The kind of change of an object in a list. It may have changed several times since the last watch."""


class PodWatch:
    """`statuses` holds the newest status of each pod, by uid. The history receives each change. Namespace None: all."""

    def __init__(self, api: ListWatch, namespace: str | None, history: History) -> None:
        self.statuses: dict[str, StatusSeen] = {}
        self._api = api
        self._namespace = namespace
        self._history = history
        self._events: dict[str, EventSeen] = {}
        self._pods: dict[str, Object] = {}
        self._claims: dict[str, Object] = {}
        self._held: dict[str, DevicesHeld] = {}
        self._states: dict[str, PodStateSeen] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        followed = ((CLAIMS, self._claim_changed), (PODS, self._pod_changed), (EVENTS, self._event_changed))
        self._tasks = [
            asyncio.create_task(self._follow(kind, saw), name=f"{kind.plural} of {self._namespace}")
            for kind, saw in followed
        ]

    async def stop(self) -> None:
        """Stop watching. It does nothing if the watch never started."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _follow(self, kind: Kind, saw: Callable[[str, Object], None]) -> None:
        while True:
            with suppress(ApiError):
                listed = await self._api.snapshot(kind, self._namespace)
                for gone in self._pods_missing_in(listed.objects) if kind is PODS else ():
                    saw("DELETED", gone)
                for found in listed.objects:
                    saw(_LISTED, found)
                async for event in self._api.watch(kind, self._namespace, since=listed.revision):
                    saw(event.type, event.object)
            await asyncio.sleep(_PAUSE)

    def _pods_missing_in(self, listed: Sequence[Object]) -> list[Object]:
        """The known pods that were deleted while no watch was open."""
        uids = {pod["metadata"]["uid"] for pod in listed}
        return [pod for uid, pod in self._pods.items() if uid not in uids]

    def _pod_changed(self, kind: str, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        if kind == "DELETED":
            self.statuses.pop(uid, None)
            self._pods.pop(uid, None)
            self._states.pop(uid, None)
            self._history.observe(Step(f"pod {pod['metadata']['name']} is deleted"))
            return
        before, self._pods[uid] = self._pods.get(uid), pod
        self._note_devices(pod)
        self._note_state(pod)
        if kind != _LISTED and before and is_rewritten(before, pod):
            self._history.observe(PodRewritten(pod["metadata"]["name"], uid))
        seen = status_seen(pod)
        if seen != self.statuses.get(uid):
            self.statuses[uid] = seen
            self._history.observe(seen)

    def _claim_changed(self, kind: str, claim: Object) -> None:
        if kind == "DELETED" or not is_allocated(claim):
            return  # a pod that has ended keeps what it showed
        name = claim["metadata"]["name"]
        self._claims[name] = claim
        for pod in self._pods.values():
            if name in claim_names(pod).values():
                self._note_devices(pod)

    def _note_devices(self, pod: Object) -> None:
        held = devices_held(pod, self._claims)
        if (held.devices or held.resources) and held != self._held.get(held.uid):
            self._held[held.uid] = held
            self._history.observe(held)

    def _note_state(self, pod: Object) -> None:
        if (seen := state_seen(pod)) and seen != self._states.get(seen.uid):
            self._states[seen.uid] = seen
            self._history.observe(seen)

    def _event_changed(self, kind: str, event: Object) -> None:
        about, uid = event["involvedObject"], event["metadata"]["uid"]
        if kind == "DELETED" or about.get("kind") != "Pod":
            return
        type_, reason, message = (event.get(key) or "" for key in ("type", "reason", "message"))
        count = event.get("count") or 1
        seen = EventSeen(about.get("name", ""), about.get("uid", ""), type_, reason, message, count)
        if seen != self._events.get(uid):  # a new watch sends all events again
            self._events[uid] = seen
            self._history.observe(seen)
