"""`drahealth up --nodes 2`: two real kubelets with one control plane, and devices with the same names."""

import json
import os
import select
import signal
from collections.abc import Iterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest

from drahealth.suites import Pod, RunningNode
from drahealth.suites.unit.listening_processes import processes
from drahealth.suites.unit.up_command.node_commands import (
    PATIENCE,
    RELEASE,
    WAIT,
    drahealth,
    folder_of_nodes,
    kubectl_of,
)

NODES = ("two", "two-2")
kubectl = partial(kubectl_of, "two")
OUTAGE = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: gpu}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: outage}
spec:
  nodeSelector: {kubernetes.io/hostname: two-2}
  containers:
  - {name: main, image: training, resources: {claims: [{name: gpu}]}}
  resourceClaims: [{name: gpu, resourceClaimName: gpu}]
"""
MOVING = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: moving}
spec:
  selector: {matchLabels: {app: moving}}
  template:
    metadata: {labels: {app: moving}}
    spec:
      containers:
      - {name: main, image: training, resources: {claims: [{name: gpu}]}}
      resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]
"""
HEALTH = "{.status.containerStatuses[0].allocatedResourcesStatus[0].resources[0].health}"


@pytest.fixture(scope="module", autouse=True)
def state() -> Iterator[Path]:
    """Two Ready nodes in a folder of their own; nothing of them is left at the end."""
    with folder_of_nodes("two") as folder:
        try:
            drahealth("up", *RELEASE, "--name", "two", "--nodes", "2")
            yield folder
        finally:
            drahealth("down", "--all")
            assert (list(folder.iterdir()), processes(folder)) == ([], {})
            folder.rmdir()


def node_and_pod(label: str) -> tuple[str, str]:
    """The node and the name of the only Pod with this label."""
    node, pod = kubectl("get", "pods", "-l", f"app={label}", "-o=jsonpath={..nodeName} {..metadata.name}").split()
    return node, pod


async def run_pods(stack: AsyncExitStack) -> list[tuple[RunningNode, Pod]]:
    """A Pod with a device on each node."""
    nodes = [await stack.enter_async_context(RunningNode(name)) for name in NODES]
    return [(node, await node.run_pod_with_device(await node.driver(), timeout=PATIENCE)) for node in nodes]


async def test_one_device_name_on_two_nodes_breaks_on_one() -> None:
    async with AsyncExitStack() as stack:
        (_, first), (node, second) = await run_pods(stack)
        driver = await node.driver()
        await driver.inject("xid/48", "gpu-*")
        await second.wait_for_health(second.device, "Unhealthy", timeout=PATIENCE)
        assert (first.device, [found.health for found in first.devices()]) == (second.device, ["Healthy"])
        await driver.reset()


async def test_pods_show_no_gap_while_drivers_are_replaced_node_by_node() -> None:
    async with AsyncExitStack() as stack:
        pods = await run_pods(stack)
        for node, _ in pods:
            await (await node.driver()).upgrade(overlap=0.2)
        assert [shown(pod) for _, pod in pods] == [{"Healthy"}, {"Healthy"}]
        for node, pod in pods:  # the new instances report
            driver = await node.driver()
            await driver.inject("xid/48", "gpu-*")
            await pod.wait_for_health(pod.device, "Unhealthy", timeout=PATIENCE)
            await driver.reset()


def shown(pod: Pod) -> set[str]:
    """The healths in all statuses of the Pod whose containers have devices."""
    entries = [entry for status in pod.statuses for one in status.containers for entry in one.resources or ()]
    return {str(device.health) for entry in entries for device in entry.resources}


@pytest.mark.skipif(os.environ.get("KUBERNETES", "1.37") < "1.37", reason="device taints are on since Kubernetes 1.37")
def test_a_pod_moves_to_the_other_node_when_its_devices_are_tainted() -> None:
    drahealth("load", "--name", "two", "-", text=MOVING)
    kubectl("rollout", "status", "deployment/moving", WAIT)
    node, pod = node_and_pod("moving")
    drahealth("ctl", "--name", node, "taint", "gpu-*", "example.com/broken:NoExecute")
    kubectl("wait", "--for=delete", f"pod/{pod}", WAIT)
    kubectl("rollout", "status", "deployment/moving", WAIT)
    assert {node, node_and_pod("moving")[0]} == set(NODES)
    drahealth("ctl", "--name", node, "reset")
    kubectl("delete", "deployment/moving", "--cascade=foreground", WAIT)


def test_a_pod_keeps_its_last_health_until_its_node_is_back() -> None:
    drahealth("load", "--name", "two", "-", text=OUTAGE)
    kubectl("wait", "--for=condition=Ready", "pod/outage", WAIT)
    drahealth("ctl", "--name", "two-2", "inject", "xid/48", "gpu-*")
    kubectl("wait", f"--for=jsonpath={HEALTH}=Unhealthy", "pod/outage", WAIT)
    drahealth("down", "--name", "two-2", "--keep")
    assert kubectl("get", "pod/outage", f"-o=jsonpath={HEALTH}") == "Unhealthy"
    drahealth("up", "--name", "two")
    kubectl("wait", f"--for=jsonpath={HEALTH}=Healthy", "pod/outage", WAIT)
    kubectl("delete", "pod/outage", WAIT)


def test_a_removed_node_leaves_no_objects_in_the_cluster() -> None:
    drahealth("down", "--name", "two-2")
    found = kubectl("get", "nodes,resourceslices", "-o=name").split()
    assert found == ["node/two", "resourceslice.resource.k8s.io/two-gpu.example.com-0"]
    drahealth("up", "--name", "two", "--nodes", "2")
    kubectl("wait", "--for=condition=Ready", "node/two-2", WAIT)


def test_a_killed_supervisor_leaves_no_process_and_all_nodes_start_again(state: Path) -> None:
    os.kill(supervisor(), signal.SIGKILL)
    drahealth("down", "--name", "two", "--keep")  # returns when nobody holds the locks
    assert processes(state) == {}
    drahealth("up", "--name", "two")
    kubectl("wait", "--for=condition=Ready", *(f"node/{name}" for name in NODES), WAIT)


def test_a_dead_kubelet_ends_all_nodes_with_the_name_of_its_node(state: Path) -> None:
    (kubelet,) = (pid for pid, program in processes(state / "two-2").items() if program == "kubelet")
    ended = os.pidfd_open(supervisor())
    try:
        os.kill(kubelet, signal.SIGKILL)
        assert select.select([ended], [], [], PATIENCE)[0]
    finally:
        os.close(ended)
    problems = {found["problem"] for found in json.loads(drahealth("status", "--json", code=1))}
    assert [problem[:26] for problem in problems] == ["node two-2: kubelet has en"]


def supervisor() -> int:
    """The process that owns both nodes."""
    (pid,) = {found["pid"] for found in json.loads(drahealth("status", "--json"))}
    return int(pid)
