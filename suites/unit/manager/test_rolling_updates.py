"""Two instances of one driver: the watched instance, the preparing instance, and the end of one."""

from typing import Any

import pytest

from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.proto.events import Prepared, StreamClosed
from drahealth.proto.values import Health
from drahealth.suites.unit.manager.rig import Node, streams, until, watched_pod

UNHEALTHY = Health.UNHEALTHY


async def roll(node: Node, **options: Any) -> tuple[FakeDriver, FakeDriver]:
    """A driver's old instance with a pod that shows its devices healthy, and a new one that finds gpu-0 sick."""
    old = await watched_pod(node, instance="old")
    new = node.driver(instance="new", **options)
    await new.set_health("gpu-0", UNHEALTHY)
    await node.start_driver(new)
    return old, new


@pytest.mark.counterpart("kep/stream-cancellation", "alpha2/stream-cancellation", "TestRegistrationHandler")
async def test_kep_watches_only_the_newest_instance(node: Node) -> None:
    old, new = await roll(node)
    await node.shows("pod", gpu_0="Unhealthy", gpu_1="Healthy")
    assert (await streams(old, still_open=0), await streams(new, still_open=1)) == (1, 1)
    await node.jump(20)
    assert (await streams(old, still_open=0), node.seen("pod")) == (1, {"gpu-0": "Unhealthy", "gpu-1": "Healthy"})


async def test_health_of_replaced_instance_is_kept_until_the_next_report(node: Node) -> None:
    await watched_pod(node, instance="old")
    new = node.driver(instance="new")
    await new.stream_silence()
    await new.start()
    await until(lambda: node.happened(StreamClosed) and new.health.open)
    assert node.seen("pod") == {"gpu-0": "Healthy", "gpu-1": "Healthy"}


async def test_end_of_the_old_instance_keeps_health_in_the_kep(node: Node) -> None:
    old, new = await roll(node)
    await node.shows("pod", gpu_0="Unhealthy", gpu_1="Healthy")
    await old.stop()
    await node.run_driver("later.example.com")
    assert (node.seen("pod"), await streams(new, still_open=1)) == ({"gpu-0": "Unhealthy", "gpu-1": "Healthy"}, 1)


@pytest.mark.counterpart("TestAddSameName", "TestDelete")
async def test_old_instance_is_watched_again_after_the_new_one_deregisters(node: Node) -> None:
    old, new = await roll(node)
    await node.shows("pod", gpu_0="Unhealthy", gpu_1="Healthy")
    await new.stop()
    await node.shows("pod", gpu_0="Healthy", gpu_1="Healthy")
    assert await streams(old, still_open=1) == 2


async def test_a_newest_instance_without_health_makes_its_devices_unknown_in_the_kep(node: Node) -> None:
    old, _ = await roll(node, health_apis=())
    await node.shows("pod", gpu_0="Unknown", gpu_1="Unknown")
    assert await streams(old, still_open=0) == 1


async def test_1_37_watches_all_instances_and_one_end_clears_health(node_1_37: Node) -> None:
    old, new = await roll(node_1_37)
    await node_1_37.shows("pod", gpu_0="Unhealthy", gpu_1="Healthy")
    assert (await streams(old, still_open=1), await streams(new, still_open=1)) == (1, 1)
    await old.set_health("gpu-1", UNHEALTHY, "says the old one")
    await node_1_37.shows("pod", gpu_0="Healthy", gpu_1="Unhealthy: says the old one")
    await old.stop()
    await node_1_37.shows("pod", gpu_0="Unknown", gpu_1="Unknown")


@pytest.mark.counterpart("TestAddSameName")
async def test_the_newest_instance_prepares(any_node: Node) -> None:
    await roll(any_node)
    await any_node.manager.unprepare("pod")
    await any_node.run_pod("later", await any_node.claim("gpu", "gpu-0"))
    assert [event.instance for event in any_node.happened(Prepared)] == ["old", "new"]
