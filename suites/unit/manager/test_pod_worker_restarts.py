"""The pods of a node with another worker, an API server outage, and rejected writes."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from drahealth.fakes.cluster.api import PODS
from drahealth.fakes.cluster.runtime import SandboxConfig
from drahealth.proto.values import Health
from drahealth.suites.unit.manager.pod_world import World, main, phase, running_world, shown, until


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with running_world() as world:
        yield world


async def test_new_worker_takes_over_running_pods(world: World) -> None:
    uid = await world.running_with_a_gpu()
    world.runtime.end(uid, "main", 1)
    before = await world.until_pod(lambda pod: main(pod)["restartCount"] == 1 and main(pod)["ready"])
    await world.restart()
    await until(lambda: world.devices.calls == ["prepare", "prepare"])
    world.devices.become(Health.UNHEALTHY)
    (after,) = await world.changes_since(before, lambda pod: shown(pod) == ["Unhealthy"])
    assert main(after)["containerID"] == main(before)["containerID"]


async def test_stopped_worker_changes_no_pods_or_containers(world: World) -> None:
    await world.running_with_a_gpu()
    before = await world.get()
    await world.workers.stop()
    world.clock.jump(300)
    assert (await world.get(), world.devices.calls, world.devices.notify) == (before, ["prepare"], None)
    assert [container.state for container in world.runtime.containers()] == ["running"]
    assert [task for task in asyncio.all_tasks() if "Pod" in repr(task.get_coro())] == []


async def test_a_new_worker_leaves_ended_pods_alone(world: World) -> None:
    uid = await world.running_with_a_gpu(restartPolicy="Never")
    world.runtime.end(uid, "main", 0)
    before = await world.until_pod(lambda pod: phase(pod) == "Succeeded")
    await world.restart()
    await world.pod("next")
    await world.until_pod(lambda pod: phase(pod) == "Running", "next")
    assert (await world.get(), world.devices.calls) == (before, ["prepare", "unprepare"])


async def test_new_worker_stops_pods_deleted_meanwhile(world: World) -> None:
    await world.running_with_a_gpu()
    await world.workers.stop()
    await world.api.delete(PODS, "train", "default", grace=0)
    world.runtime.run_sandbox(SandboxConfig("unheard", "default", "of"))
    await world.restart()
    await until(lambda: world.runtime.sandboxes() == [])
    assert sorted(world.devices.calls[1:]) == ["forget", "forget", "unprepare", "unprepare"]


async def test_nothing_is_lost_while_the_api_is_unavailable(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    uid = await world.running_with_a_gpu(restartPolicy="Never")
    world.api.down()
    world.devices.become(Health.UNHEALTHY)
    world.runtime.end(uid, "main", 7)
    await until(lambda: "failed to write its status" in caplog.text and "failed to watch" in caplog.text)
    for _ in range(5):
        world.clock.jump(10)
        await asyncio.sleep(0)
    world.api.up()
    world.clock.jump(10)
    pod = await world.until_pod(lambda pod: phase(pod) == "Failed")
    assert main(pod)["state"]["terminated"]["exitCode"] == 7
    assert len(caplog.records) == 2


async def test_pod_changes_during_an_api_restart_are_noticed(world: World) -> None:
    await world.running_with_a_gpu()
    world.api.restart()
    await world.api.delete(PODS, "train", "default", grace=0)
    await world.pod("next")
    world.clock.jump(1)
    await world.until_pod(lambda pod: phase(pod) == "Running", "next")
    await until(lambda: world.devices.calls[-1] == "forget")


async def test_rejected_status_is_retried(world: World, caplog: pytest.LogCaptureFixture) -> None:
    await world.running_with_a_gpu()
    world.devices.become("bad")  # type: ignore[arg-type]
    await until(lambda: "Unsupported value" in caplog.text)
    world.devices.health = Health.UNHEALTHY
    world.clock.jump(1)
    await world.until_pod(lambda pod: shown(pod) == ["Unhealthy"])
    assert caplog.text.count("failed to write its status") == 1


async def test_error_in_a_sync_is_logged_and_retried(world: World, caplog: pytest.LogCaptureFixture) -> None:
    await world.running_with_a_gpu()
    world.devices.trouble["health"] = RuntimeError("a fault")
    world.devices.become(Health.UNHEALTHY)
    await until(lambda: "a fault" in caplog.text)
    del world.devices.trouble["health"]
    world.clock.jump(10)
    await world.until_pod(lambda pod: shown(pod) == ["Unhealthy"])
