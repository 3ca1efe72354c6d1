"""Pods with extended resources on a node, and the resources in the node status."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from drahealth.fakes.cluster.api import NODES, Object
from drahealth.manager.pod_worker.worker import PERIOD
from drahealth.proto.values import AdmissionError, Amount
from drahealth.suites.unit.manager.pod_world import World, phase, running_world, until, waits_for

GPU = "example.com/gpu"
LIMITS = {"resources": {"limits": {GPU: "2"}}}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with running_world() as world:
        yield world


def containers(**more: Any) -> Any:
    return {"containers": [{"name": "main", "image": "image", **LIMITS}], **more}


async def test_container_starts_with_its_granted_devices(world: World) -> None:
    uid = await world.pod(
        **containers(
            initContainers=[{"name": "init", "image": "training", "command": ["sh", "-c", "exit 0"], **LIMITS}]
        )
    )
    await world.until_pod(lambda pod: phase(pod) == "Running")
    (main,) = [c for c in world.runtime.containers(pod_uid=uid) if c.config.name == "main"]
    assert world.devices.wanted == {"init": {GPU: 2}, "main": {GPU: 2}}
    assert (main.config.cdi_devices, main.config.annotations) == (("example.com/dp=main",), {"note": "main"})


async def test_pod_without_free_devices_is_rejected(world: World) -> None:
    world.devices.trouble["allocate"] = AdmissionError("2 requested, 1 available")
    uid = await world.pod(**containers())
    pod = await world.until_pod(lambda pod: phase(pod) == "Failed")
    assert (pod["status"]["reason"], pod["status"]["message"]) == (
        "UnexpectedAdmissionError",
        "Allocate failed due to 2 requested, 1 available, which is unexpected",
    )
    assert world.runtime.containers(pod_uid=uid) == []
    await until(lambda: "unprepare" in world.devices.calls)


async def test_pre_start_is_called_before_each_container_start(world: World) -> None:
    world.devices.announces = True
    await world.pod(command=("sh", "-c", "exit 1"))
    await until(lambda: world.devices.calls.count("pre-start main") == 2)
    await world.until_pod(lambda pod: waits_for(pod) == "CrashLoopBackOff")
    assert world.devices.calls == ["pre-start main"] * 2


async def test_container_waits_while_pre_start_fails(world: World) -> None:
    world.devices.announces = True
    world.devices.trouble["pre-start main"] = RuntimeError("the device does not reset")
    await world.pod()
    await world.until_pod(lambda pod: waits_for(pod) == "PreStartContainerError")
    del world.devices.trouble["pre-start main"]
    world.clock.jump(1)
    await world.until_pod(lambda pod: phase(pod) == "Running")


async def until_node(world: World, **amounts: str) -> Object:
    """The node's status, once it has just these amounts to give of extended resources."""
    wanted = {f"example.com/{name}": amount for name, amount in amounts.items()}
    async for event in world.api.watch(NODES):
        status: Object = event.object.get("status") or {}
        if {name: n for name, n in status.get("allocatable", {}).items() if "/" in name} == wanted:
            return status
    raise AssertionError("the watch ended")


async def test_node_status_keeps_other_resources(world: World) -> None:
    made = await world.api.create(NODES, {"metadata": {"name": "node-a"}})
    await world.api.replace_status(NODES, {**made, "status": {"allocatable": {"cpu": "4"}}})
    world.devices.node_has = {GPU: Amount(3, 2)}
    world.devices.notify_of_amounts()
    status = await until_node(world, gpu="2")
    assert (status["allocatable"], status["capacity"]) == ({"cpu": "4", GPU: "2"}, {GPU: "3"})
    world.devices.node_has = {}
    world.devices.notify_of_amounts()
    status = await until_node(world)
    assert (status["allocatable"], status["capacity"]) == ({"cpu": "4"}, {})


async def test_a_node_that_cannot_be_written_is_written_later(world: World) -> None:
    world.devices.node_has = {GPU: Amount(1, 1)}
    world.devices.notify_of_amounts()
    await world.pod()
    await world.until_pod(lambda pod: phase(pod) == "Running")
    await world.api.create(NODES, {"metadata": {"name": "node-a"}})
    world.clock.jump(PERIOD)
    await until_node(world, gpu="1")
