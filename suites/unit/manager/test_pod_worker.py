"""The life of pods on a node, from their admission to their end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import cast

import pytest

from drahealth.fakes.cluster.api import EVENTS, NODES, PODS
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.cluster.runtime import ContainerRuntime
from drahealth.manager.pod_worker.worker import PodLifecycle, PodWorkers
from drahealth.proto.values import Health
from drahealth.suites.unit.endings import PATIENCE
from drahealth.suites.unit.manager.pod_world import Devices, World, main, phase, running_world, shown, until, waits_for

CRASHES = ("sh", "-c", "exit 1")


class CountedSyncs(PodLifecycle):
    count = 0

    async def _sync(self) -> None:
        CountedSyncs.count += 1
        await super()._sync()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with running_world() as world:
        yield world


async def test_a_pod_without_claims_runs(world: World) -> None:
    await world.pod()
    pod = await world.until_pod(lambda pod: phase(pod) == "Running")
    conditions = {condition["type"]: condition["status"] for condition in pod["status"]["conditions"]}
    assert set(conditions.values()) == {"True"}
    assert (main(pod)["ready"], main(pod)["image"], pod["status"]["podIP"]) == (True, "image", "127.0.0.1")
    assert world.devices.calls == []


async def test_pods_of_other_nodes_are_left_alone(world: World) -> None:
    await world.pod("elsewhere", nodeName="node-b")
    await world.pod()
    await world.until_pod(lambda pod: phase(pod) == "Running")
    assert [sandbox.config.pod_name for sandbox in world.runtime.sandboxes()] == ["train"]


async def test_a_pod_that_is_bound_later_runs_too(world: World) -> None:
    await world.api.create(NODES, {"metadata": {"name": "node-a"}})
    await world.pod(nodeName="")
    await world.api.bind("train", "default", "node-a")
    await world.until_pod(lambda pod: phase(pod) == "Running")


async def test_a_pod_waits_for_its_claim_and_gets_its_devices(world: World) -> None:
    uid = await world.pod(claim=True)
    waiting = await world.until_pod(lambda pod: waits_for(pod) == "ClaimsNotReady")
    await world.allocate(uid)
    world.clock.jump(1)
    await world.until_pod(lambda pod: shown(pod) == ["Healthy"])
    [container] = world.runtime.containers()
    message = main(waiting)["state"]["waiting"]["message"]
    assert (phase(waiting), message) == ("Pending", "ResourceClaim default/train-gpu does not exist yet")
    assert container.config.cdi_devices == ("example.com/gpu=gpu-0",)


async def test_event_reports_the_reason_of_a_failed_preparation(world: World) -> None:
    uid = await world.pod(claim=True)
    async with asyncio.timeout(PATIENCE), aclosing(world.api.watch(EVENTS, "default")) as events:
        async for change in events:
            if change.object["reason"] == "FailedPrepareDynamicResources":
                break
    message = "Failed to prepare dynamic resources: ResourceClaim default/train-gpu does not exist yet"
    assert (change.object["involvedObject"]["uid"], change.object["message"]) == (uid, message)


async def test_failed_preparation_is_logged_and_retried(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.devices.trouble["prepare"] = RuntimeError("no driver gpu.example.com is registered")
    uid = await world.pod(claim=True)
    await world.allocate(uid)
    pod = await world.until_pod(lambda pod: "registered" in main(pod)["state"].get("waiting", {}).get("message", ""))
    await until(lambda: world.devices.calls.count("prepare") >= 3)
    del world.devices.trouble["prepare"]
    world.clock.jump(10)
    await world.until_pod(lambda pod: phase(pod) == "Running")
    assert phase(pod) == "Pending"
    assert caplog.text.count("no driver gpu.example.com is registered") == 1


@pytest.mark.counterpart("alpha2/handler-and-updates")
async def test_health_change_is_pushed(world: World) -> None:
    await world.running_with_a_gpu()
    world.devices.become(Health.UNHEALTHY)
    await world.until_pod(lambda pod: shown(pod) == ["Unhealthy"])


async def test_a_flood_of_changes_is_one_sync(world: World) -> None:
    await world.running_with_a_gpu()
    before = await world.get()
    for _ in range(100):
        world.devices.become(Health.UNKNOWN)
        world.devices.become(Health.UNHEALTHY)
    assert [shown(pod) for pod in await world.changes_since(before, lambda pod: shown(pod) == ["Unhealthy"])] == [
        ["Unhealthy"]
    ]


async def test_change_without_notification_shows_at_the_next_resync(world: World) -> None:
    await world.running_with_a_gpu()
    world.devices.health = Health.UNKNOWN
    world.clock.jump(59)
    for _ in range(10):
        await asyncio.sleep(0)
    before = shown(await world.get())
    world.clock.jump(1)
    await world.until_pod(lambda pod: shown(pod) == ["Unknown"])
    assert before == ["Healthy"]


@pytest.mark.parametrize(("code", "end"), [(0, "Succeeded"), (3, "Failed")])
async def test_ending_pod_releases_its_devices_first(world: World, code: int, end: str) -> None:
    uid = await world.running_with_a_gpu(restartPolicy="Never")
    world.runtime.end(uid, "main", code)
    ended = await world.until_pod(lambda pod: "terminated" in main(pod)["state"])
    pod = await world.until_pod(lambda pod: phase(pod) == end)
    assert (phase(ended), shown(ended)) == ("Running", ["Healthy"])
    assert (main(pod)["state"]["terminated"]["exitCode"], shown(pod)) == (code, [])
    assert world.devices.calls[-1:] == ["unprepare"]


async def test_a_pod_that_ended_is_kept_until_it_is_deleted(world: World) -> None:
    uid = await world.running_with_a_gpu(restartPolicy="Never")
    world.runtime.end(uid, "main", 0)
    await world.until_pod(lambda pod: phase(pod) == "Succeeded")
    await world.api.delete(PODS, "train", "default")
    await until(lambda: world.devices.calls[-1] == "forget")
    assert world.devices.calls.count("unprepare") == 1
    assert world.runtime.sandboxes() == []


async def test_crash_loop_backs_off_and_continues(world: World) -> None:
    await world.pod(command=CRASHES)
    first = await world.until_pod(lambda pod: waits_for(pod) == "CrashLoopBackOff")
    world.clock.jump(10)
    second = await world.until_pod(lambda pod: waits_for(pod) == "CrashLoopBackOff" and main(pod)["restartCount"] == 2)
    assert (phase(first), main(first)["restartCount"]) == ("Running", 1)
    assert [main(pod)["state"]["waiting"]["message"].split(" ")[1] for pod in (first, second)] == ["10s", "20s"]
    assert main(second)["lastState"]["terminated"]["exitCode"] == 1
    assert sorted(container.config.attempt for container in world.runtime.containers()) == [1, 2]


@pytest.mark.parametrize(("code", "after"), [(0, "Succeeded"), (1, "Running")])
async def test_on_failure_restarts_only_failed_containers(world: World, code: int, after: str) -> None:
    uid = await world.pod(restartPolicy="OnFailure")
    await world.until_pod(lambda pod: phase(pod) == "Running")
    world.runtime.end(uid, "main", code)
    pod = await world.until_pod(
        lambda pod: phase(pod) == "Succeeded" or (main(pod)["restartCount"] == 1 and "running" in main(pod)["state"])
    )
    assert phase(pod) == after


async def test_deleted_pod_stops_releases_devices_and_is_removed(world: World) -> None:
    await world.running_with_a_gpu()
    await world.api.delete(PODS, "train", "default")
    last = await world.until_gone()
    await until(lambda: world.devices.calls[-1] == "forget")
    assert (phase(last), main(last)["state"]["terminated"]["exitCode"]) == ("Failed", 143)
    assert world.devices.calls[-2:] == ["unprepare", "forget"]
    assert (world.runtime.sandboxes(), world.runtime.containers()) == ([], [])


async def test_a_pod_that_is_removed_at_once_is_cleaned_up(world: World) -> None:
    await world.running_with_a_gpu()
    await world.api.delete(PODS, "train", "default", grace=0)
    await until(lambda: world.devices.calls[-2:] == ["unprepare", "forget"])
    assert world.runtime.containers() == []


async def test_a_pod_that_was_removed_during_a_stop_releases_its_devices(world: World) -> None:
    world.devices.held["uid-of-a-removed-pod"] = {"claim"}
    await world.restart()
    await until(lambda: world.devices.calls == ["unprepare", "forget"])


async def test_a_pod_that_ended_before_a_restart_releases_the_devices_that_it_still_holds(world: World) -> None:
    world.devices.shared = True
    uid = await world.running_with_a_gpu(restartPolicy="Never")
    world.runtime.end(uid, "main", 0)
    await world.until_pod(lambda pod: phase(pod) == "Succeeded")
    world.devices.calls.clear()
    await world.restart()
    await until(lambda: world.devices.calls == ["unprepare"])


async def test_a_removed_pod_whose_driver_is_absent_waits_without_a_sync(world: World) -> None:
    world.workers.lifecycle = CountedSyncs
    await world.running_with_a_gpu()
    world.devices.trouble["unprepare"] = RuntimeError("the driver is unavailable")
    await world.api.delete(PODS, "train", "default", grace=0)
    await until(lambda: "unprepare" in world.devices.calls)
    before = CountedSyncs.count
    for _ in range(100):
        await asyncio.sleep(0)
    assert CountedSyncs.count <= before + 2  # one after the removal, and one after the failed call


async def test_pod_with_unreleased_devices_stays_and_shows_health(world: World) -> None:
    await world.running_with_a_gpu()
    world.devices.trouble["unprepare"] = RuntimeError("the driver is unavailable")
    await world.api.delete(PODS, "train", "default")
    await until(lambda: world.devices.calls.count("unprepare") >= 2)
    world.devices.become(Health.UNHEALTHY)
    pod = await world.until_pod(lambda pod: shown(pod) == ["Unhealthy"])
    del world.devices.trouble["unprepare"]
    world.clock.jump(10)
    await world.until_gone()
    assert (phase(pod), "terminated" in main(pod)["state"]) == ("Running", True)


async def test_rejected_final_status_is_retried_unchanged(world: World) -> None:
    await world.running_with_a_gpu()
    world.devices.shared = True
    world.devices.become(cast("Health", "Sick"))
    await world.api.delete(PODS, "train", "default")
    await until(lambda: "unprepare" in world.devices.calls)
    await world.pod("fence")
    await world.until_pod(lambda pod: phase(pod) == "Running", "fence")
    world.devices.become(Health.HEALTHY)
    world.clock.jump(300)
    await world.api.delete(PODS, "fence", "default")
    await world.until_gone("fence")
    assert (phase(await world.get()), shown(await world.get())) == ("Running", ["Healthy"])


async def test_a_pod_can_be_deleted_while_its_driver_hangs(world: World) -> None:
    world.devices.hangs = True
    uid = await world.pod(claim=True)
    await world.allocate(uid)
    await until(lambda: world.devices.calls == ["prepare"])
    await world.api.delete(PODS, "train", "default")
    assert phase(await world.until_gone()) == "Failed"


async def test_finalizers_hold_a_deleted_pod_in_the_api_only(world: World) -> None:
    await world.running_with_a_gpu()
    pod = await world.get()
    await world.api.replace(PODS, {**pod, "metadata": {**pod["metadata"], "finalizers": ["example.com/x"]}})
    await world.api.delete(PODS, "train", "default")
    held = await world.until_pod(lambda pod: pod["metadata"].get("deletionGracePeriodSeconds") == 0)
    calls = list(world.devices.calls)
    await world.api.replace(PODS, {**held, "metadata": {**held["metadata"], "finalizers": []}})
    await until(lambda: world.devices.calls[-1] == "forget")
    assert (phase(held), calls[-1]) == ("Failed", "unprepare")


async def test_a_pod_that_someone_else_ended_is_stopped(world: World) -> None:
    await world.running_with_a_gpu()
    pod = await world.get()
    evicted = {**pod["status"], "phase": "Failed", "reason": "Evicted"}
    await world.api.replace_status(PODS, {**pod, "status": evicted})
    await until(lambda: world.devices.calls[-1] == "unprepare")
    assert [container.state for container in world.runtime.containers()] == ["exited"]
    assert (await world.get())["status"] == evicted


def test_invalid_resync_is_rejected() -> None:
    with pytest.raises(ValueError, match="resync must be"):
        PodWorkers(ApiServer(), Devices(), ContainerRuntime(), "node-a", resync=0)
