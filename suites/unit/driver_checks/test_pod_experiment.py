"""The Pod on the reference, with a fake driver in a process of its own."""

import sys
from pathlib import Path

from drahealth.proto.events import ExperimentEnded, PodDeleted
from drahealth.suites.driver_checks.observed_pods import pod_runs, resources
from drahealth.suites.unit.driver_checks.pod_lifetime import run_while_the_pod_lives
from drahealth.suites.unit.driver_checks.runs import run_with

SERVE = (
    *(sys.executable, "-m", "drahealth.suites", "driver", "serve", "--kubeconfig", "{kubeconfig}"),
    *("--kubelet-dir", "{kubelet_dir}", "--cdi-dir", "{cdi_dir}", "--node-name", "{node_name}"),
    *("--socket", "{plugins_dir}/control.sock", "-f"),
)


async def test_pod_runs_shows_its_devices_and_is_deleted(tmp_path: Path) -> None:
    file = tmp_path / "gpus.yaml"
    file.write_text("format: inventory/v1\ndevices:\n- {name: gpu, count: 3}\n")
    asked = run_with(command=(*SERVE, str(file)), only=frozenset({"pod-status"}), level="core")
    evidence = await run_while_the_pod_lives(asked)
    outcomes = [one.what.outcome for one in evidence.of(ExperimentEnded, "pod-status")]
    (pod,) = pod_runs(evidence)
    shown = {one.resource_id for one in resources(pod.running[-1].what)}
    assert outcomes == ["done"]
    assert shown == {pod.id_of(*one) for one in pod.allocated}
    assert len(list(evidence.of(PodDeleted))) == 1
