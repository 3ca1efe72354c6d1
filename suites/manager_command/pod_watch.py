"""Tells of every change of a pod's status, as a client of the API sees it."""

import asyncio
from contextlib import aclosing

from drahealth.fakes.cluster.api import PODS, ApiError, Object
from drahealth.fakes.cluster.list_watch import ListWatch
from drahealth.suites.manager_command.events import Observer, PodGone, StatusChanged

_PAUSE = 0.5
"""Seconds until a watch that has ended is opened again."""


async def watch_pods(api: ListWatch, tell: Observer) -> None:
    """Tells until cancelled."""
    statuses: dict[str, Object] = {}
    while True:
        try:
            async with aclosing(api.watch(PODS)) as events:
                async for event in events:
                    pod, uid = event.object, event.object["metadata"]["uid"]
                    if event.type == "DELETED":
                        statuses.pop(uid, None)
                        tell(PodGone(pod))
                    elif statuses.get(uid) != (status := pod.get("status", {})):
                        statuses[uid] = status
                        tell(StatusChanged(pod))
        except ApiError:
            statuses.clear()
        await asyncio.sleep(_PAUSE)
