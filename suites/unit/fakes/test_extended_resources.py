"""Extended resources: pod requests, node capacity, and the scheduler's accounting."""

from typing import Any

import pytest

from drahealth.fakes.cluster.api import NODES, PODS, Object
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.cluster.pods import insufficient, requests_by_container, requests_of_pod
from drahealth.fakes.cluster.scheduler import Scheduler

GPU, NIC = "example.com/gpu", "example.com/nic"


def container(name: str = "main", restart: str = "", **limits: Any) -> Object:
    given = {f"example.com/{resource}": amount for resource, amount in limits.items()}
    one: Object = {"name": name, "resources": {"limits": {**given, "cpu": "1"}}}
    return {**one, "restartPolicy": restart} if restart else one


def pod(*containers: Object, init: tuple[Object, ...] = (), phase: str = "Pending", name: str = "pod") -> Object:
    spec = {
        key: [{"image": "training", **one} for one in found]
        for key, found in (("containers", containers), ("initContainers", init))
    }
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec, "status": {"phase": phase}}


def node(**allocatable: Any) -> Object:
    found = {f"example.com/{name}": amount for name, amount in allocatable.items()}
    return {"metadata": {"name": "node-a"}, "status": {"allocatable": {**found, "memory": "1Gi"}}}


def test_requests_are_the_limits_of_containers() -> None:
    asks = pod(container("a", gpu="2", nic=1), container("b"), init=(container("i", gpu=3),))
    assert requests_by_container(asks) == {"i": {GPU: 3}, "a": {GPU: 2, NIC: 1}}


def test_node_needs_the_larger_of_running_and_init_requests() -> None:
    before, beside = container("i", gpu=4, nic=1), container("s", restart="Always", gpu=1)
    assert requests_of_pod(pod(container("a", gpu=1), container("b", gpu=1), init=(before, beside))) == {GPU: 4, NIC: 1}


@pytest.mark.parametrize(
    ("has", "others", "lacks"),
    [
        ({"gpu": "2"}, [], ""),
        ({"gpu": "1"}, [], "Insufficient example.com/gpu"),
        ({}, [], "Insufficient example.com/gpu"),
        ({"gpu": "3"}, [pod(container(gpu=1))], ""),
        ({"gpu": "3"}, [pod(container(gpu=2))], "Insufficient example.com/gpu"),
        ({"gpu": "3"}, [pod(container(gpu=2), phase="Failed")], ""),
    ],
)
def test_insufficient_resource_is_named(has: dict[str, str], others: list[Object], lacks: str) -> None:
    assert insufficient(pod(container(gpu=2)), node(**has), others) == lacks


async def until_bound(server: ApiServer, count: int) -> set[str]:
    """The pods on a node, once there are so many, and all others have been told that they wait."""
    settled: dict[str, bool] = {}
    async for event in server.watch(PODS, "default"):
        bound = bool(event.object["spec"].get("nodeName"))
        if bound or event.object["status"].get("conditions"):
            settled[event.object["metadata"]["name"]] = bound
        if len(settled) == 3 and sum(settled.values()) == count:
            return {name for name, on_a_node in settled.items() if on_a_node}
    raise AssertionError("the watch ended")


async def test_pods_are_scheduled_as_devices_become_available() -> None:
    server = ApiServer()
    scheduler = Scheduler(server)
    made = await server.create(NODES, {"metadata": {"name": "node-a"}})
    await server.replace_status(NODES, {**made, "status": {"allocatable": {GPU: "2"}}})
    for name in "abc":
        await server.create(PODS, pod(container(gpu="1"), name=name))
    await scheduler.start()
    try:
        before = await until_bound(server, 2)
        now = await server.get(NODES, "node-a")
        await server.replace_status(NODES, {**now, "status": {"allocatable": {GPU: "3"}}})
        assert before < await until_bound(server, 3)
    finally:
        await scheduler.stop()
