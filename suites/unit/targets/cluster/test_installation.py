"""One run at a time uses a cluster, and what a killed run left is removed."""

import time
from typing import Any

import pytest

from drahealth.fakes.cluster.api import DEVICE_CLASSES, LEASES, NAMESPACES, SLICES, timestamp
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.cluster.installation import LEASE, remove_left
from drahealth.suites.targets.pods.deployment import SELECTOR
from drahealth.suites.targets.progress import silent
from drahealth.suites.targets.target import BELONGS

INSTALLED = {"theirs", "gpu.example.com", "slice-gpu.example.com"}
"""The objects of others, also of a fake driver that somebody installed."""


async def cluster(renewed: float) -> ApiServer:
    """With the objects of a run on another machine, whose Lease was renewed this number of seconds ago, and others."""
    api = ApiServer()
    for name, labels in (("ours", SELECTOR), ("ours-1", BELONGS), ("theirs", {})):
        await api.create(NAMESPACES, {"metadata": {"name": name, "labels": labels}})
    for name, labels in (("gpu-1", BELONGS), ("gpu.example.com", {"app.kubernetes.io/part-of": "drahealth"})):
        await api.create(DEVICE_CLASSES, {"metadata": {"name": name, "labels": labels}, "spec": {}})
    for driver in ("gpu-1", "gpu.example.com"):
        pool = {"name": "node", "generation": 1, "resourceSliceCount": 1}
        found: dict[str, Any] = {"driver": driver, "nodeName": "node", "pool": pool, "devices": []}
        await api.create(SLICES, {"metadata": {"name": f"slice-{driver}"}, "spec": found})
    spec: dict[str, Any] = {"holderIdentity": "elsewhere/7/1", "renewTime": timestamp(time.time() - renewed)}
    await api.create(LEASES, {"metadata": {"name": LEASE, "namespace": "ours"}, "spec": spec})
    return api


async def left(api: ApiServer) -> set[str]:
    found = [one for kind in (NAMESPACES, DEVICE_CLASSES, SLICES) for one in await api.list(kind)]
    return {one["metadata"]["name"] for one in found} - {"default", "kube-system", "kube-public", "kube-node-lease"}


async def test_the_objects_of_a_killed_run_are_removed_and_no_others() -> None:
    api = await cluster(100)
    assert await remove_left(api, silent) == ["ours", "ours-1"]
    assert await left(api) == INSTALLED


async def test_a_run_that_has_no_lease_yet_keeps_the_cluster() -> None:
    api = await cluster(100)
    await api.create(NAMESPACES, {"metadata": {"name": "begins", "labels": SELECTOR}})
    with pytest.raises(HarnessError, match="another run has just begun to use the cluster"):
        await remove_left(api, silent)
    assert "begins" in await left(api)


async def test_a_run_that_exists_keeps_the_cluster() -> None:
    api = await cluster(10)
    with pytest.raises(HarnessError, match="another run uses the cluster: process 7 on elsewhere; wait for its end"):
        await remove_left(api, silent)
    assert await left(api) == {"ours", "ours-1", "gpu-1", "slice-gpu-1", *INSTALLED}
