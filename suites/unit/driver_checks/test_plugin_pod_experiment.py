"""The Pod with devices of a device plugin on the reference, with a fake device plugin in a process of its own."""

import sys
from pathlib import Path

from drahealth.proto.events import ExperimentEnded, PodDeleted
from drahealth.suites.driver_checks.all_checks import CHECKS
from drahealth.suites.driver_checks.device_plugins.observed import plugin_pod_runs
from drahealth.suites.driver_checks.verdicts import Verdict
from drahealth.suites.unit.driver_checks.pod_lifetime import run_while_the_pod_lives
from drahealth.suites.unit.driver_checks.runs import run_with

SERVE = (
    *(sys.executable, "-m", "drahealth.suites", "driver", "serve", "--kubeconfig", "{kubeconfig}"),
    *("--kubelet-dir", "{kubelet_dir}", "--node-name", "{node_name}", "--socket", "{plugins_dir}/control.sock", "-f"),
)
PLUGINS = """
format: inventory/v1
plugins:
- {resource: example.com/gpu, devices: [{name: gpu, count: 3}]}
- {resource: example.com/nic, devices: [{name: nic, count: 1}]}
"""
DONE = "plugin-pod-status"


async def test_two_pods_use_devices_of_each_resource(tmp_path: Path) -> None:
    file = tmp_path / "plugins.yaml"
    file.write_text(PLUGINS)
    driver = {"kind": "device-plugin", "command": (*SERVE, str(file))}
    asked = run_with({"driver": driver}, only=frozenset({DONE}), level="core")
    evidence = await run_while_the_pod_lives(asked)
    first, second = plugin_pod_runs(evidence, DONE)
    assert [one.what.outcome for one in evidence.of(ExperimentEnded, DONE)] == ["done"]
    assert {resource for resource, _ in first.allocated} == {"example.com/gpu", "example.com/nic"}
    assert (first.allocated, len(list(evidence.of(PodDeleted)))) == (second.allocated, 2)
    assert {check.judge(evidence).verdict for check in CHECKS.values() if check.experiments == (DONE,)} == {
        Verdict.PASS
    }
