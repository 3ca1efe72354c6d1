"""The Pod with devices of a device plugin on the reference, with a fake device plugin in a process of its own."""

import asyncio
import sys
from pathlib import Path

from drahealth.fakes.clock import JumpClock
from drahealth.proto.events import Event, ExperimentEnded, PodDeleted, PodRequested, StatusSeen
from drahealth.proto.values import Health
from drahealth.suites.checking.checks import CHECKS
from drahealth.suites.checking.device_plugins.observed_pods import plugin_pod_runs
from drahealth.suites.checking.observed.pods import resources
from drahealth.suites.checking.run import run_experiments
from drahealth.suites.checking.settings import Settings
from drahealth.suites.checking.verdicts import Verdict

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
    file, clock, running, deleted = tmp_path / "plugins.yaml", JumpClock(), asyncio.Event(), asyncio.Event()
    file.write_text(PLUGINS)

    def heard(_: str, event: Event) -> None:
        if isinstance(event, StatusSeen) and any(one.health is Health.HEALTHY for one in resources(event)):
            running.set()
        if isinstance(event, PodRequested) and event.change == "deleted":
            deleted.set()

    async def fly() -> None:
        await running.wait()
        while not deleted.is_set():
            clock.jump(0.25)
            await asyncio.sleep(0.005)

    flying = asyncio.create_task(fly())
    settings = Settings(command=(*SERVE, str(file)), only=frozenset({DONE}), level="core", subject="device-plugin")
    evidence = await run_experiments(settings, heard, clock)
    await flying
    first, second = plugin_pod_runs(evidence, DONE)
    assert [one.what.outcome for one in evidence.of(ExperimentEnded, DONE)] == ["done"]
    assert {resource for resource, _ in first.allocated} == {"example.com/gpu", "example.com/nic"}
    assert (first.allocated, len(list(evidence.of(PodDeleted)))) == (second.allocated, 2)
    assert {check.judge(evidence).verdict for check in CHECKS.values() if check.experiments == (DONE,)} == {
        Verdict.PASS
    }
