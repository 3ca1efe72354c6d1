"""Events on pods as the pod worker writes them into the API."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from drahealth.fakes.cluster.api import EVENTS, Object
from drahealth.manager.pod_worker.pod_status import PodEvent
from drahealth.proto.values import Health
from drahealth.suites.unit.endings import PATIENCE
from drahealth.suites.unit.manager.pod_world import World, running_world, shown


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with running_world() as world:
        yield world


async def told(world: World, reason: str, count: int = 1) -> Object:
    """The one event of this reason, once it has the count."""
    async with asyncio.timeout(PATIENCE):
        async for event in world.api.watch(EVENTS, "default"):
            if event.object["reason"] == reason and event.object["count"] >= count:
                return event.object
    raise AssertionError("the watch ended")


async def test_a_change_of_health_is_an_event_on_the_pod(world: World) -> None:
    uid = await world.running_with_a_gpu()
    world.devices.become(Health.UNHEALTHY)
    event = await told(world, "DeviceUnhealthy")
    about = {key: event["involvedObject"][key] for key in ("kind", "namespace", "name", "uid")}
    assert about == {"kind": "Pod", "namespace": "default", "name": "train", "uid": uid}
    assert (event["type"], event["count"]) == ("Warning", 1)
    assert event["source"] == {"component": "kubelet", "host": "node-a"}
    assert event["message"] == "Device gpu-0 of claim:gpu is Unhealthy"


async def test_the_same_change_again_is_counted_in_the_same_event(world: World) -> None:
    await world.running_with_a_gpu()
    for health in (Health.UNHEALTHY, Health.HEALTHY, Health.UNHEALTHY):
        world.devices.become(health)
        await world.until_pod(lambda pod: shown(pod) == [world.devices.health])
    event = await told(world, "DeviceUnhealthy", count=2)
    assert [e["count"] for e in await world.api.list(EVENTS) if e["reason"] == "DeviceUnhealthy"] == [2]
    assert event["firstTimestamp"] <= event["lastTimestamp"]


async def test_restarted_worker_does_not_repeat_events(world: World) -> None:
    await world.running_with_a_gpu()
    world.devices.become(Health.UNHEALTHY)
    await told(world, "DeviceUnhealthy")
    await world.restart()
    world.devices.become(Health.HEALTHY)
    await told(world, "DeviceHealthy")
    assert [e["count"] for e in await world.api.list(EVENTS) if e["reason"] == "DeviceUnhealthy"] == [1]


async def test_events_wait_for_an_unavailable_api_server(world: World) -> None:
    await world.running_with_a_gpu()
    started = await told(world, "Started")
    world.api.down()
    tell(world, started, PodEvent("Warning", "Something", "happened"))
    world.api.up()
    assert (await told(world, "Something"))["message"] == "happened"


async def test_expired_event_is_created_again(world: World) -> None:
    await world.running_with_a_gpu()
    started = await told(world, "Started")
    await world.api.delete(EVENTS, started["metadata"]["name"], "default")
    tell(world, started, PodEvent("Normal", "Started", started["message"]))
    assert (await told(world, "Started", count=2))["count"] == 2


def tell(world: World, event: Object, what: PodEvent) -> None:
    """Tells it of the pod of another event."""
    world.workers._events.record(world.workers._pods[event["involvedObject"]["uid"]].pod.newest, what)
