"""One pod in the API: its newest known state, and the writes of a kubelet."""

import logging
from collections.abc import Callable

from drahealth.fakes.cluster.api import PODS, Api, ApiError, Object
from drahealth.fakes.cluster.pods import is_terminal

log = logging.getLogger(__name__)

_TRIES = 5
"""Consecutive conflicts after which a write is left to the next sync."""


class PodObject:
    """`newest` never goes back; `is_gone` when the API no longer has a pod with this UID.

    A rejected call is logged once, again only when the reason changes, and returns False.
    """

    def __init__(self, api: Api, pod: Object, *, is_gone: bool = False) -> None:
        self.newest = pod
        self.is_gone = is_gone
        self._api = api
        self._sent: tuple[int, Object] | None = None
        self._complaint = ""

    @property
    def uid(self) -> str:
        return str(self.newest["metadata"]["uid"])

    @property
    def is_deleting(self) -> bool:
        return "deletionTimestamp" in self.newest["metadata"]

    def take(self, pod: Object) -> bool:
        """Stores a state of the pod if it is newer; returns whether it was."""
        if _revision(pod) <= _revision(self.newest):
            return False
        self.newest = pod
        return True

    def relisted(self, pod: Object) -> None:
        """Called after a new connection to the API: earlier writes may have to be repeated."""
        self.take(pod)
        self._sent = None

    async def write_status(self, build: Callable[[Object], Object]) -> bool:
        """Writes the status from `build` for the newest state, if it differs; a terminal pod is not changed.

        Returns False if the write was rejected and must be retried.
        """
        for _ in range(_TRIES):
            pod = self.newest
            status = build(pod)
            if is_terminal(pod) or status == pod.get("status") or self._sent == (_revision(pod), status):
                return True
            try:
                self._stored(await self._api.replace_status(PODS, {**pod, "status": status}), status)
                return True
            except ApiError as error:
                if not await self._reread_after(error):
                    return False
        return False

    async def delete(self) -> bool:
        """Deletes the pod in the API when nothing of it is left on the node."""
        try:
            if await self._is_still_there():
                metadata = self.newest["metadata"]
                await self._api.delete(PODS, metadata["name"], metadata["namespace"], grace=0)
        except ApiError as error:
            return self._refused("delete", error)
        return True

    def _stored(self, stored: Object, status: Object) -> None:
        self._sent = (_revision(stored), status)
        self._complaint = ""
        self.take(stored)

    async def _reread_after(self, error: ApiError) -> bool:
        if error.status != 409:
            return self._refused("write its status", error)
        try:
            return await self._is_still_there()
        except ApiError as second:
            return self._refused("read it after a conflict", second)

    async def _is_still_there(self) -> bool:
        """Reads the pod again; it may be deleted, or replaced by a pod with the same name."""
        metadata = self.newest["metadata"]
        current = await self._api.get(PODS, metadata["name"], metadata["namespace"])
        self.is_gone = current["metadata"]["uid"] != self.uid
        if not self.is_gone:
            self.take(current)
        return not self.is_gone

    def _refused(self, what: str, error: ApiError) -> bool:
        if error.status == 404:
            self.is_gone = True
        elif str(error) != self._complaint:
            self._complaint = str(error)
            name = f"{self.newest['metadata']['namespace']}/{self.newest['metadata']['name']}"
            log.warning("pod %s: failed to %s: %s; retrying with back-off", name, what, error)
        return False


def _revision(pod: Object) -> int:
    return int(pod["metadata"]["resourceVersion"])
