"""`drahealth up --fleet 20`: hollow nodes in the control plane of a real node, with Pods that use their devices."""

import json
import urllib.request
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import pytest

from drahealth.suites.unit.listening_processes import processes
from drahealth.suites.unit.up_command.node_commands import RELEASE, WAIT, drahealth, folder_of_nodes, kubectl_of

NODES, NODES_PER_RACK, PODS = 20, 4, 40
HEALTH = ".status.containerStatuses[0].allocatedResourcesStatus[0].resources[0].health"
kubectl = partial(kubectl_of, "drahealth")
JOB = f"""
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {{name: gpu}}
spec: {{spec: {{devices: {{requests: [{{name: gpu, exactly: {{deviceClassName: gpu.example.com}}}}]}}}}}}
---
apiVersion: batch/v1
kind: Job
metadata: {{name: fleet}}
spec:
  parallelism: {PODS}
  completions: {PODS}
  template:
    spec:
      restartPolicy: Never
      affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [
        {{matchExpressions: [{{key: fleet.example.com/rack, operator: Exists}}]}}]}}}}}}
      containers:
      - {{name: main, image: training, resources: {{claims: [{{name: gpu}}]}}}}
      resourceClaims: [{{name: gpu, resourceClaimTemplateName: gpu}}]
"""


@pytest.fixture(scope="module", autouse=True)
def state() -> Iterator[Path]:
    """A node with a fleet, and running Pods on it; nothing of them is left at the end."""
    with folder_of_nodes("fleet") as folder:
        try:
            drahealth(
                "up", *RELEASE, "--fleet", str(NODES), "--nodes-per-rack", f"{NODES_PER_RACK}", "--metrics-port", "0"
            )
            drahealth("load", "-", text=JOB)
            kubectl("wait", f"--for=jsonpath={{.status.ready}}={PODS}", "job/fleet", WAIT)
            yield folder
        finally:
            drahealth("down")
            assert (list(folder.iterdir()), processes(folder)) == ([], {})
            folder.rmdir()


def pods_by(field: str) -> dict[str, list[str]]:
    """By the value of a field of the Pod, the names of the Pods."""
    found: dict[str, list[str]] = {}
    lines = kubectl("get", "pods", f"-o=jsonpath={{range .items[*]}}{{{field}}} {{.metadata.name}}{{'\\n'}}{{end}}")
    for value, name in map(str.split, lines.splitlines()):
        found.setdefault(value, []).append(name)
    return found


def until_shown(pods: Iterable[str], health: str) -> None:
    """Returns when each of these Pods shows this health of its device."""
    kubectl("wait", *(f"pod/{name}" for name in pods), f"--for=jsonpath={{{HEALTH}}}={health}", WAIT)


def test_fault_of_a_rack_is_in_the_statuses_of_its_nodes_alone() -> None:
    nodes = pods_by(".spec.nodeName")
    rack_of = {node: int(node.removeprefix("fleet-")) // NODES_PER_RACK for node in nodes}
    number = min(rack_of.values())
    rack = sorted(name for node, names in nodes.items() for name in names if rack_of[node] == number)
    drahealth("ctl", "--fleet", "inject", "xid/48", "--rack", f"rack-{number}")
    until_shown(rack, "Unhealthy")
    shown = pods_by(HEALTH)
    assert (sorted(shown["Unhealthy"]), len(shown["Healthy"])) == (rack, PODS - len(rack))
    drahealth("ctl", "--fleet", "recover", "gpu-reset", "--rack", f"rack-{number}")
    until_shown(rack, "Healthy")


def test_metrics_count_the_faults_of_each_rack(state: Path) -> None:
    (status,) = json.loads(drahealth("status", "--json"))
    token = (state / "drahealth/fleet.metrics-token").read_text().strip()
    request = urllib.request.Request(status["metrics"], headers={"Authorization": f"Bearer {token}"})
    drahealth("ctl", "--fleet", "inject", "xid/48", "fleet-0/gpu-0")
    with urllib.request.urlopen(request) as answer:
        lines = answer.read().decode().splitlines()
    drahealth("ctl", "--fleet", "recover", "gpu-reset")
    faults = [line for line in lines if line.startswith("drahealth_fleet_faults{") and not line.endswith(" 0.0")]
    assert [('rack="rack-0"' in line, line.split()[-1]) for line in faults] == [(True, "1.0")]


def test_pods_of_the_fleet_run_on_after_a_restart_of_the_node() -> None:
    before = pods_by(".status.phase")
    drahealth("down", "--keep")
    drahealth("up", *RELEASE)
    until_shown(before["Running"], "Healthy")
    assert (list(before), pods_by(".status.phase")) == (["Running"], before)
