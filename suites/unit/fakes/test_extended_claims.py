"""Extended resources that a DeviceClass maps to devices of a driver: their claims, and their names in the pod."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from drahealth.fakes.cluster.allocation import claim_status, claimed_resources, extended_claim
from drahealth.fakes.cluster.api import CLAIMS, DEVICE_CLASSES, NODES, PODS, Object
from drahealth.suites.unit.fakes.test_scheduler import GPU_CLASS, Cluster, fail_one_binding, named

GPU, NIC = "example.com/gpu", "example.com/nic"
CLASSES: dict[str, Object] = {
    "gpu": {"spec": {"extendedResourceName": GPU}},
    "nic": {"spec": {"extendedResourceName": NIC}},
    "other": {"spec": {}},
}


def container(name: str, **limits: str) -> Object:
    amounts = {"cpu": "1", **{f"example.com/{name}": amount for name, amount in limits.items()}}
    return {"name": name, "resources": {"limits": amounts, "requests": amounts}}


def pod(name: str, *containers: Object, **spec: Any) -> Object:
    return named(name, {"containers": [{"image": "training", **one} for one in containers], **spec})


@pytest.mark.parametrize(
    ("allocatable", "claimed"),
    [({}, {GPU: "gpu", NIC: "nic"}), ({GPU: "2"}, {NIC: "nic"}), ({GPU: "0", NIC: "1"}, {GPU: "gpu"})],
)
def test_a_resource_is_claimed_unless_the_node_has_a_device_plugin_for_it(
    allocatable: Object, claimed: dict[str, str]
) -> None:
    obj = pod("train", container("main", gpu="1", nic="1", disk="1"))
    assert claimed_resources(obj, {"status": {"allocatable": allocatable}}, CLASSES) == claimed


def test_the_claim_has_a_request_for_each_resource_of_each_container() -> None:
    obj = pod("train", container("a", gpu="2"), container("b", gpu="1", nic="1"), initContainers=[container("first")])
    obj["metadata"]["uid"] = "u"
    claim = extended_claim(obj, {GPU: "gpu", NIC: "nic"})
    wanted = [(one["name"], *one["exactly"].values()) for one in claim["spec"]["devices"]["requests"]]
    names = ["container-1-request-1", "container-2-request-1", "container-2-request-2"]
    kinds = [("gpu", "ExactCount", 2), ("gpu", "ExactCount", 1), ("nic", "ExactCount", 1)]
    assert wanted == [(name, *kind) for name, kind in zip(names, kinds, strict=True)]
    status = claim_status(obj, {"metadata": {"name": "made"}}, (GPU, NIC))
    containers = [(one["containerName"], one["resourceName"], one["requestName"]) for one in status["requestMappings"]]
    assert containers == [("a", GPU, names[0]), ("b", GPU, names[1]), ("b", NIC, names[2])]


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """A node with two devices, which a DeviceClass offers as an extended resource."""
    cluster = Cluster()
    await cluster.start()
    gpus = await cluster.server.get(DEVICE_CLASSES, "gpu")
    await cluster.server.replace(DEVICE_CLASSES, {**gpus, "spec": {**GPU_CLASS["spec"], "extendedResourceName": GPU}})
    yield cluster
    await cluster.scheduler.stop()


async def test_a_pod_gets_a_claim_for_its_extended_resource(cluster: Cluster) -> None:
    bound = await cluster.run(pod("train", container("main", gpu="2")))
    (claim,) = await cluster.server.list(CLAIMS)
    name, request = claim["metadata"]["name"], "container-0-request-1"
    mapping = {"containerName": "main", "resourceName": GPU, "requestName": request}
    assert bound["status"]["extendedResourceClaimStatus"] == {"resourceClaimName": name, "requestMappings": [mapping]}
    assert (await cluster.devices(name), await cluster.consumers(name)) == (["gpu-0", "gpu-1"], ["train"])


async def test_the_claim_for_an_extended_resource_ends_with_its_pod(cluster: Cluster) -> None:
    await cluster.run(pod("first", container("main", gpu="2")))
    await cluster.server.create(PODS, pod("second", container("main", gpu="1")))
    assert await cluster.waits("second") == "0/1 nodes are available: 1 cannot allocate all claims"
    await cluster.end("first")
    await cluster.bound("second")
    assert [c["metadata"]["ownerReferences"][0]["name"] for c in await cluster.server.list(CLAIMS)] == ["second"]


async def test_a_pod_whose_binding_failed_keeps_its_claim(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_one_binding(cluster, monkeypatch)
    bound = await cluster.run(pod("train", container("main", gpu="1")))
    named = bound["status"]["extendedResourceClaimStatus"]["resourceClaimName"]
    assert [claim["metadata"]["name"] for claim in await cluster.server.list(CLAIMS)] == [named]


async def test_no_claim_is_created_for_resources_of_a_device_plugin(cluster: Cluster) -> None:
    node = await cluster.server.get(NODES, "node")
    await cluster.server.replace_status(NODES, {**node, "status": {"allocatable": {GPU: "1"}}})
    await cluster.run(pod("train", container("main", gpu="1")))
    assert await cluster.server.list(CLAIMS) == []
