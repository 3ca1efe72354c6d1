"""`drahealth up --gates`: each component gets the gates that it knows. The gate of the test is one of the scheduler."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from drahealth.suites.unit.up_command.node_commands import RELEASE, drahealth, folder_of_nodes

GATE = "DRAOptionalNodeOperations"  # alpha, and new in Kubernetes 1.37
WITHOUT_A_DRIVER = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: fabric}
spec:
  driver: fabric.example.com
  nodeName: gates
  pool: {name: gates, generation: 1, resourceSliceCount: 1}
  skipNodeOperations: ["*"]
  devices: [{name: port-0}]
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: fabric.example.com}
spec: {selectors: [{cel: {expression: device.driver == "fabric.example.com"}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: port}
spec: {devices: {requests: [{name: port, exactly: {deviceClassName: fabric.example.com}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: job}
spec:
  containers: [{name: main, image: training, resources: {claims: [{name: port}]}}]
  resourceClaims: [{name: port, resourceClaimName: port}]
"""
SKIPPED = "{.status.allocation.devices.results[0].skipNodeOperations[0]}"
ENTRIES = "{.status.containerStatuses[0].allocatedResourcesStatus}"


@pytest.fixture
def state() -> Iterator[Path]:
    """A folder for nodes. All nodes are removed at the end."""
    with folder_of_nodes("gates") as folder:
        yield folder
        drahealth("down", "--all")
        assert list(folder.iterdir()) == []
        folder.rmdir()


@pytest.mark.skipif(os.environ.get("KUBERNETES", "1.37") < "1.37", reason=f"{GATE} is new in Kubernetes 1.37")
def test_a_gate_reaches_scheduler_api_server_and_kubelet(state: Path) -> None:
    drahealth("up", *RELEASE, "--name", "gates", "--gates", f"{GATE}=true")
    drahealth("load", "--name", "gates", "-", text=WITHOUT_A_DRIVER)
    # The API server keeps the field of the slice, the scheduler copies it, and so the kubelet asks no driver.
    drahealth("kubectl", "--name", "gates", "wait", "--for=condition=Ready", "pod/job", "--timeout=240s")
    skipped = drahealth("kubectl", "--name", "gates", "get", "resourceclaim/port", f"-o=jsonpath={SKIPPED}")
    entries = drahealth("kubectl", "--name", "gates", "get", "pod/job", f"-o=jsonpath={ENTRIES}")
    assert (skipped, entries) == ("*", "")  # fact N-03


def test_an_unknown_gate_is_one_error_and_leaves_nothing(state: Path) -> None:
    said = drahealth("up", *RELEASE, "--gates", f"{GATE[:-1]}=true", code=2)
    assert (said.count("drahealth: "), f"'{GATE[:-1]}'" in said, list(state.iterdir())) == (1, True, [])
