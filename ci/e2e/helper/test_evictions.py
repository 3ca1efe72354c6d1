"""A device taint with the effect NoExecute evicts Pods on a real control plane (`ci/step helper` runs this)."""

from collections.abc import AsyncIterator

import pytest

from drahealth.manager.releases import DEFAULT_VERSION, NEWEST
from drahealth.suites.story.hardware import Gpu
from drahealth.suites.story.node import Node
from drahealth.suites.targets.kubelet import ensure as binaries
from drahealth.suites.targets.kubelet.target import KubeletTarget

KEY = "gpu.example.com/unhealthy"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    target = KubeletTarget(binaries.ensure(DEFAULT_VERSION), NEWEST)
    try:
        await target.start()
        node = Node(target, "an eviction", ("STATUS-01",), lambda work: work)
        await node.begin()
        yield node
        await node.finish()
    finally:
        await target.stop()


async def test_no_execute_evicts_pods_of_claims_and_of_extended_resources(node: Node) -> None:
    """Kubernetes evicts the second kind of Pods since 1.37.2 (N-02)."""
    _, with_claim, claimed = await node.pod_with_a_gpu()
    driver = await node.driver(devices=1)
    resource = await driver.provides_a_resource()
    with_resource = await node.running_pod(containers={"one": [resource]})
    (held,) = await with_resource.held()
    await claimed.gets_taint(KEY, "NoExecute")
    await with_claim.is_gone()
    await Gpu(driver, held.device).gets_taint(KEY, "NoExecute")
    await with_resource.is_gone()
