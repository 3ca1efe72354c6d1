"""Deployment to a cluster; a dictionary with the verbs of the API simulates the cluster."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from drahealth.fakes.cluster.api import NAMESPACES, PODS, ApiError, Kind, Object, WatchEvent
from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.pods import NAMESPACE, deployment
from drahealth.suites.targets.pods.deployment import (
    CLUSTER_ROLES,
    DAEMON_SETS,
    NAME,
    SELECTOR,
    Deployment,
    deploy,
    remove,
    why_gone,
)
from drahealth.suites.targets.progress import silent


class Cluster:
    """Has every object that it is given, and a pod for each daemon set: Ready, or with this container status."""

    def __init__(self, broken: Object | None = None) -> None:
        self.objects: dict[tuple[Kind, str], Object] = {}
        self.broken = broken
        self.writes: list[str] = []

    async def create(self, kind: Kind, obj: Object) -> Object:
        if (kind, obj["metadata"]["name"]) in self.objects:
            raise ApiError(409, "AlreadyExists", "it exists")
        return self._store("create", kind, obj)

    async def replace(self, kind: Kind, obj: Object) -> Object:
        return self._store("replace", kind, obj)

    async def get(self, kind: Kind, name: str, namespace: str | None = None) -> Object:
        try:
            return self.objects[kind, name]
        except KeyError:
            raise ApiError(404, "NotFound", f"{name} not found") from None

    async def list(self, kind: Kind, namespace: str | None = None) -> list[Object]:
        return [obj for (found, _), obj in self.objects.items() if found == kind]

    async def delete(self, kind: Kind, name: str, namespace: str | None = None, grace: int | None = None) -> None:
        await self.get(kind, name)
        if kind == NAMESPACES:
            self.objects[kind, name]["metadata"]["deletionTimestamp"] = "now"
            asyncio.get_running_loop().call_later(0.3, self.objects.clear)
        else:
            del self.objects[kind, name]

    async def replace_status(self, kind: Kind, obj: Object) -> Object:
        raise NotImplementedError

    def watch(self, kind: Kind, namespace: str | None = None) -> AsyncGenerator[WatchEvent, None]:
        raise NotImplementedError

    def _store(self, verb: str, kind: Kind, obj: Object) -> Object:
        namespace = self.objects.get((NAMESPACES, NAMESPACE), {"metadata": {}})
        if "deletionTimestamp" in namespace["metadata"]:
            raise ApiError(403, "Forbidden", "it is being terminated")
        self.writes.append(f"{verb} {kind.kind}")
        self.objects[kind, obj["metadata"]["name"]] = obj = {**obj, "metadata": {**obj["metadata"]}}
        obj["metadata"]["resourceVersion"] = "1"
        if kind == DAEMON_SETS:
            self._start(obj)
        return obj

    def _start(self, daemon_set: Object) -> None:
        ready = self.broken is None
        counts = ("desiredNumberScheduled", "updatedNumberScheduled", "numberReady", "numberAvailable")
        daemon_set["status"] = {count: 1 if ready or count == counts[0] else 0 for count in counts}
        status: dict[str, Any] = {"conditions": [{"type": "Ready", "status": str(ready)}]}
        if self.broken:
            status["containerStatuses"] = [self.broken]
        pod = {"metadata": {"name": "p", "labels": SELECTOR}, "spec": {"nodeName": "n"}, "status": status}
        self.objects[PODS, "p"] = pod


async def test_deploy_returns_the_pods_by_node() -> None:
    cluster = Cluster()
    assert await deploy(cluster, Deployment("image:1"), silent) == {"n": "p"}
    assert cluster.writes == [f"create {kind.kind}" for kind, _ in Deployment("image:1").manifests()]


async def test_existing_objects_are_replaced() -> None:
    cluster = Cluster()
    await deploy(cluster, Deployment("image:1"), silent)
    await deploy(cluster, Deployment("image:2"), silent)
    assert "replace DaemonSet" in cluster.writes


async def test_remove_deletes_everything_and_may_be_repeated() -> None:
    cluster = Cluster()
    await deploy(cluster, Deployment("image:1"), silent)
    await remove(cluster)
    await remove(cluster)
    assert cluster.objects == {}


async def test_a_long_removal_is_shown_with_its_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployment, "_BEAT", 0.01)
    cluster, told = Cluster(), list[str]()
    await deploy(cluster, Deployment("image:1"), silent)
    await remove(cluster, lambda stage, done=None, total=None: told.append(stage))
    assert told[:2] == ["Removing the fake driver", "Removing the fake driver (0 s)"]


async def test_a_namespace_that_is_being_deleted_is_waited_for() -> None:
    cluster = Cluster()
    await deploy(cluster, Deployment("image:1"), silent)
    await cluster.delete(NAMESPACES, NAMESPACE)
    assert await deploy(cluster, Deployment("image:1"), silent) == {"n": "p"}


@pytest.mark.parametrize(
    ("kind", "name"), [(NAMESPACES, NAMESPACE), (CLUSTER_ROLES, f"{NAMESPACE}:{NAME}"), (DAEMON_SETS, NAME)]
)
async def test_objects_of_others_are_neither_replaced_nor_deleted(kind: Kind, name: str) -> None:
    cluster = Cluster()
    theirs = {"metadata": {"name": name, "labels": {"team": "theirs"}, "resourceVersion": "1"}}
    cluster.objects[kind, name] = theirs
    with pytest.raises(HarnessError, match=f"another {kind.kind} {name}, .*; use another cluster"):
        await deploy(cluster, Deployment("image:1"), silent)
    await remove(cluster)
    assert (cluster.writes, cluster.objects) == ([], {(kind, name): theirs})


async def test_remove_deletes_only_our_objects() -> None:
    cluster = Cluster()
    await deploy(cluster, Deployment("image:1"), silent)
    del cluster.objects[NAMESPACES, NAMESPACE]["metadata"]["labels"]
    await remove(cluster)
    assert list(cluster.objects) == [(NAMESPACES, NAMESPACE), (PODS, "p")]


async def test_a_failed_pull_is_an_error_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployment, "_PATIENCE", 0.0)
    cluster = Cluster({"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}})
    with pytest.raises(HarnessError, match="does not start: pod p on n: ImagePullBackOff: no such image"):
        await deploy(cluster, Deployment("image:1"), silent)


async def test_pods_that_do_not_become_ready_have_a_limit_and_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployment, "START_LIMIT", 0.0)
    cluster = Cluster({"state": {"running": {}}})
    cluster.objects[NAMESPACES, NAMESPACE] = {"metadata": {"resourceVersion": "1", "labels": SELECTOR}}
    with pytest.raises(HarnessError, match="pod p on n is Pending and not Ready"):
        await deploy(cluster, Deployment("image:1"), silent)


async def test_a_deleted_pod_has_a_reason() -> None:
    assert "pod p " in await why_gone(Cluster(), "p")
