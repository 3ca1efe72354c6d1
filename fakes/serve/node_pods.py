"""The current pods of a node, for those parts that read their annotations or statuses."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator

from drahealth.fakes.cluster.api import PODS, ApiError, Object
from drahealth.fakes.cluster.list_watch import ListWatch
from drahealth.fakes.cluster.pods import is_terminal
from drahealth.proto.values import Health, ResourceHealth

RETRY = 1.0
"""Seconds until pods are asked for again that could not be had."""
REFUSED = 10.0
"""The same after a refusal, such as for a right that is missing."""

log = logging.getLogger(__name__)

_HEALTH = {str(health): health for health in Health}


class NodePods:
    """The pods of `source`, which can be a selection. During an API server outage the last known pods stay."""

    def __init__(self, source: ListWatch) -> None:
        self.problem = ""
        """Why they are not followed now; empty while they are."""
        self._source = source
        self._pods: dict[tuple[str, str], Object] = {}
        self._hearers: list[Callable[[], None]] = []

    def add(self, changed: Callable[[], None]) -> None:
        """Adds a function that is called after each change."""
        self._hearers.append(changed)

    def all(self) -> list[Object]:
        """All pods. Do not change them."""
        return list(self._pods.values())

    async def run(self) -> None:
        """Follows the pods until cancelled."""
        while True:
            try:
                objects, revision = await self._source.snapshot(PODS)
                self._pods = {_key(pod): pod for pod in objects}
                if self.problem:
                    log.warning("pods are watched again")
                self.problem = ""
                self._tell()
                async for event in self._source.watch(PODS, since=revision):
                    if event.type == "DELETED":
                        self._pods.pop(_key(event.object), None)
                    else:
                        self._pods[_key(event.object)] = event.object
                    self._tell()
            except ApiError as error:
                if error.status != 410 and not self.problem:
                    log.warning("pods cannot be watched, their last annotations apply: %s", error)
                    self.problem = f"pods cannot be watched: {error}"
                if error.status not in (410, 503):
                    await asyncio.sleep(REFUSED)
            await asyncio.sleep(RETRY)

    def _tell(self) -> None:
        for changed in self._hearers:
            changed()


def shown(pod: Object, ids: Collection[str], entry: str = "") -> Iterator[ResourceHealth]:
    """The devices with these ids in the statuses of a running pod's containers.

    `entry` limits this to an extended resource, because other resources can have the same ids (core/v1
    `ResourceStatus`); empty means any entry.
    """
    if is_terminal(pod):
        return
    status = pod.get("status", {})
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        for named in container.get("allocatedResourcesStatus") or ():
            for found in (named.get("resources") or ()) if entry in ("", named.get("name")) else ():
                if found.get("resourceID") in ids:
                    health = _HEALTH.get(found.get("health", ""), Health.UNKNOWN)
                    yield ResourceHealth(found["resourceID"], health, found.get("message", ""))


def _key(pod: Object) -> tuple[str, str]:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]
