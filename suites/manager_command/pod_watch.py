"""Emits an event for every change of a pod's status, as a client of the API sees it."""

import asyncio
from contextlib import aclosing
from dataclasses import replace

from drahealth.fakes.cluster.api import PODS, ApiError, Object
from drahealth.fakes.cluster.list_watch import ListWatch
from drahealth.fakes.cluster.pod_status import status_seen
from drahealth.proto.events import Observe, PodDeleted, StatusSeen
from drahealth.suites.manager_command.status_files import StatusFiles

_PAUSE = 0.5
"""Seconds until a watch that has ended is opened again."""


async def watch_pods(api: ListWatch, observe: Observe, files: StatusFiles) -> None:
    """Passes the events to the observer and to the status files, until cancelled."""
    statuses: dict[str, Object] = {}
    while True:
        try:
            async with aclosing(api.watch(PODS)) as events:
                async for event in events:
                    pod, uid = event.object, event.object["metadata"]["uid"]
                    if event.type == "DELETED":
                        statuses.pop(uid, None)
                        files.delete(pod)
                        observe(pod_deleted(pod))
                    elif statuses.get(uid) != (status := pod.get("status", {})):
                        statuses[uid] = status
                        files.change(pod)
                        observe(status_of(pod))
        except ApiError:
            statuses.clear()
        await asyncio.sleep(_PAUSE)


def status_of(pod: Object) -> StatusSeen:
    """The event of a pod's new status."""
    return replace(status_seen(pod), namespace=pod["metadata"]["namespace"])


def pod_deleted(pod: Object) -> PodDeleted:
    """The event for a deleted pod."""
    metadata = pod["metadata"]
    return PodDeleted(metadata["name"], metadata["uid"], metadata["namespace"])
