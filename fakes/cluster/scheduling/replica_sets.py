"""Keeps the number of pods that each ReplicaSet requests: creates missing pods and deletes extra ones.

It replaces the ReplicaSet controller of Kubernetes, and the garbage collector for the pods of a deleted set. It acts
after changes and never polls.
"""

from typing import Any

from drahealth.fakes.cluster.api import PODS, REPLICA_SETS, ApiError, Kind, Object
from drahealth.fakes.cluster.list_watch import ControlPlaneApi
from drahealth.fakes.cluster.pods import is_terminal
from drahealth.fakes.cluster.scheduling.control_loop import ControlLoop

_CHANGED_UNDER_US = (403, 404, 409, 503)
"""Errors after which a watch event explains the reason, or after which there is nothing to do."""


class ReplicaSetController(ControlLoop):
    """Works from `start` to `stop`."""

    def __init__(self, api: ControlPlaneApi) -> None:
        super().__init__("replica sets", api, (REPLICA_SETS, PODS))
        self._api = api

    async def _pass(self) -> None:
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
        """Terminating pods do not count, so a replacement is created before the old pod is gone."""
        meta, spec = replica_set["metadata"], replica_set["spec"]
        pods = [pod for pod in self._mirror.objects(PODS) if _owner(pod) == meta["uid"] and _is_active(pod)]
        wanted = spec.get("replicas", 1)
        for _ in range(wanted - len(pods)):
            self._mirror.store(PODS, await self._api.create(PODS, _pod(replica_set)))
        for pod in pods[wanted:]:
            await self._api.delete(PODS, pod["metadata"]["name"], meta["namespace"])

    async def _collect(self) -> None:
        """Deletes pods of deleted sets."""
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
    """The UID of the pod's set; empty if there is none."""
    references = pod.get("metadata", {}).get("ownerReferences") or ()
    return next((str(one["uid"]) for one in references if one["kind"] == REPLICA_SETS.kind), "")


def _is_active(pod: Object) -> bool:
    return not is_terminal(pod) and "deletionTimestamp" not in pod["metadata"]
