"""Keeps as many pods as each ReplicaSet asks for: what is deleted is made again, what is too much goes.

It stands in for the ReplicaSet controller of Kubernetes, and for the garbage collector where that takes a set's pods
along. It acts when something changes and never polls.
"""

import asyncio
from typing import Any

from drahealth.fakes.api import PODS, REPLICA_SETS, ApiError, Kind, Object
from drahealth.fakes.clients.mirror import Mirror
from drahealth.fakes.list_watch import ControlPlaneApi
from drahealth.fakes.pods import is_terminal

_CHANGED_UNDER_US = (403, 404, 409, 503)
"""Refusals after which an event is on its way that says why, or after which there is nothing to do."""


class ReplicaSetController:
    """Works from `start` to `stop`."""

    def __init__(self, api: ControlPlaneApi) -> None:
        self._api = api
        self._mirror = Mirror(api, (REPLICA_SETS, PODS), self._changed)
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Takes up the sets that are there, and from then on whatever changes."""
        self._task = asyncio.create_task(self._run(), name="replica sets")

    async def wait(self) -> None:
        """Returns once it has ended; raises what ended it, if anything did."""
        if self._task is not None:
            await asyncio.wait([self._task])
            self._task.result()

    async def stop(self) -> None:
        """Ends it; raises what ended it before, if anything did."""
        if self._task is not None:
            task, self._task = self._task, None
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                task.result()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._mirror.run(), name="mirror of replica sets")
            while True:
                await self._wake.wait()
                await self._mirror.whole.wait()
                self._wake.clear()
                for replica_set in self._mirror.objects(REPLICA_SETS):
                    await self._unless_changed(self._fill(replica_set))
                await self._unless_changed(self._collect())

    def _changed(self, kind: Kind, old: Object | None, new: Object | None) -> None:
        if kind == REPLICA_SETS or _owner(new or old or {}):
            self._wake.set()

    async def _unless_changed(self, work: Any) -> None:
        try:
            await work
        except ApiError as error:
            if error.status not in _CHANGED_UNDER_US:
                raise

    async def _fill(self, replica_set: Object) -> None:
        """Pods on their way out count no more, so one that takes the place of another comes before that is gone."""
        meta, spec = replica_set["metadata"], replica_set["spec"]
        pods = [pod for pod in self._mirror.objects(PODS) if _owner(pod) == meta["uid"] and _is_active(pod)]
        wanted = spec.get("replicas", 1)
        for _ in range(wanted - len(pods)):
            self._mirror.take(PODS, await self._api.create(PODS, _pod(replica_set)))
        for pod in pods[wanted:]:
            await self._api.delete(PODS, pod["metadata"]["name"], meta["namespace"])

    async def _collect(self) -> None:
        """Pods whose set is gone go with it."""
        sets = {replica_set["metadata"]["uid"] for replica_set in self._mirror.objects(REPLICA_SETS)}
        for pod in self._mirror.objects(PODS):
            if _owner(pod) and _owner(pod) not in sets and "deletionTimestamp" not in pod["metadata"]:
                await self._api.delete(PODS, pod["metadata"]["name"], pod["metadata"]["namespace"])


def _pod(replica_set: Object) -> Object:
    """The next pod of the set."""
    meta, template = replica_set["metadata"], replica_set["spec"]["template"]
    owner = {"apiVersion": REPLICA_SETS.api_version, "kind": REPLICA_SETS.kind, "controller": True}
    metadata = {
        "namespace": meta["namespace"],
        "generateName": f"{meta['name']}-",
        "labels": (template.get("metadata") or {}).get("labels") or {},
        "ownerReferences": [{**owner, "name": meta["name"], "uid": meta["uid"]}],
    }
    return {"metadata": metadata, "spec": template["spec"]}


def _owner(pod: Object) -> str:
    """The uid of the set that the pod belongs to; empty if there is none."""
    references = pod.get("metadata", {}).get("ownerReferences") or ()
    return next((str(one["uid"]) for one in references if one["kind"] == REPLICA_SETS.kind), "")


def _is_active(pod: Object) -> bool:
    return not is_terminal(pod) and "deletionTimestamp" not in pod["metadata"]
