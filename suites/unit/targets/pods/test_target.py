"""What the targets with fake drivers in Pods share: locks, leftovers, and what workers read."""

import asyncio
from dataclasses import asdict
from pathlib import Path

import pytest

from drahealth.fakes.cluster.api import DEVICE_CLASSES, NAMESPACES, PODS
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.suites.targets.pods.target import ClusterLock, Joined, PreparedNodes, seconds, tidy
from drahealth.suites.targets.registry import SharedFile
from drahealth.suites.targets.target import BELONGS
from drahealth.suites.unit.endings import PATIENCE


async def test_only_the_objects_of_a_killed_run_are_deleted() -> None:
    api = ApiServer()
    for name, labels in (("ours", BELONGS), ("theirs", {})):
        await api.create(NAMESPACES, {"metadata": {"name": name, "labels": labels}})
        await api.create(DEVICE_CLASSES, {"metadata": {"name": name, "labels": labels}, "spec": {}})
        pod = {
            "metadata": {"name": "pod", "namespace": name},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
        }
        await api.create(PODS, pod)
    await tidy(api)
    left = {
        kind.kind: [o["metadata"].get("namespace", o["metadata"]["name"]) for o in await api.list(kind)]
        for kind in (NAMESPACES, DEVICE_CLASSES, PODS)
    }
    assert left == {"Namespace": ["default", "kube-system", "theirs"], "DeviceClass": ["theirs"], "Pod": ["theirs"]}


# Shared and exclusive locks of a cluster.


async def passes(waiting: "asyncio.Task[None]") -> bool:
    """Whether it comes in within the time of a few attempts."""
    done, _ = await asyncio.wait([waiting], timeout=0.1)
    return bool(done)


async def test_shared_locks_are_held_together(tmp_path: Path) -> None:
    both = [ClusterLock(tmp_path), ClusterLock(tmp_path)]
    async with asyncio.timeout(PATIENCE):
        for one in both:
            await one.enter(alone=False)
    for one in both:
        one.leave()
        one.leave()


async def test_an_exclusive_lock_waits_for_shared_ones_and_is_not_overtaken(tmp_path: Path) -> None:
    first, alone, late = (ClusterLock(tmp_path) for _ in range(3))
    await first.enter(alone=False)
    disturbs = asyncio.create_task(alone.enter(alone=True))
    assert not await passes(disturbs)
    follows = asyncio.create_task(late.enter(alone=False))
    assert not await passes(follows)
    first.leave()
    assert await passes(disturbs)
    assert not await passes(follows)
    alone.leave()
    assert await passes(follows)
    late.leave()


async def test_a_cancelled_wait_for_the_lock_blocks_no_other(tmp_path: Path) -> None:
    inside, waits, other = (ClusterLock(tmp_path) for _ in range(3))
    await inside.enter(alone=True)
    waiting = asyncio.create_task(waits.enter(alone=True))
    assert not await passes(waiting)
    waiting.cancel()
    await asyncio.wait([waiting])
    inside.leave()
    async with asyncio.timeout(PATIENCE):
        await other.enter(alone=False)
    other.leave()


async def test_a_held_lock_cannot_be_taken_again(tmp_path: Path) -> None:
    one = ClusterLock(tmp_path)
    await one.enter(alone=False)
    with pytest.raises(RuntimeError, match="holds the lock"):
        await one.enter(alone=True)
    one.leave()
    await asyncio.wait_for(one.enter(alone=True), PATIENCE)
    one.leave()


# The cluster data that the controller of a run shares with its workers.


PREPARED = PreparedNodes(
    folder="/f",
    kubeconfig="/f/kubeconfig",
    pods={"c-worker2": "pod-b", "c-worker": "pod-a"},
    image="i:1",
    sync_frequency=6.0,
)


async def test_workers_read_the_cluster_that_the_controller_wrote(tmp_path: Path) -> None:
    file = SharedFile(tmp_path / "shared.json")
    file.write(asdict(PREPARED))
    assert await Joined(file, PreparedNodes).up() == PREPARED


def test_workers_are_spread_over_the_nodes_that_accept_pods() -> None:
    assert [PREPARED.node_for(worker) for worker in range(3)] == ["c-worker", "c-worker2", "c-worker"]


@pytest.mark.parametrize(
    ("text", "number"), [("6s", 6), ("1m0s", 60), ("1h1m1.5s", 3661.5), ("250ms", 0.25), ("0s", 0)]
)
def test_a_go_duration_is_read_as_seconds(text: str, number: float) -> None:
    assert seconds(text) == number


@pytest.mark.parametrize("text", ["", "6", "s", "6 s", "-1s", "1y"])
def test_an_invalid_duration_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text!r} is no duration$"):
        seconds(text)
