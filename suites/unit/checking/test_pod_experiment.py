"""The Pod on the reference, with a fake driver in a process of its own."""

import asyncio
import sys
from pathlib import Path

from drahealth.fakes.clock import JumpClock
from drahealth.proto.events import Event, ExperimentEnded, PodDeleted, PodRequested, StatusSeen
from drahealth.proto.values import Health
from drahealth.suites.checking.observed.pods import pod_runs, resources
from drahealth.suites.checking.run import run_experiments
from drahealth.suites.checking.settings import Settings

SERVE = (
    *(sys.executable, "-m", "drahealth.suites", "driver", "serve", "--kubeconfig", "{kubeconfig}"),
    *("--kubelet-dir", "{kubelet_dir}", "--cdi-dir", "{cdi_dir}", "--node-name", "{node_name}"),
    *("--socket", "{plugins_dir}/control.sock", "-f"),
)


async def test_pod_runs_shows_its_devices_and_is_deleted(tmp_path: Path) -> None:
    file, clock, running, deleted = tmp_path / "gpus.yaml", JumpClock(), asyncio.Event(), asyncio.Event()
    file.write_text("format: inventory/v1\ndevices:\n- {name: gpu, count: 3}\n")

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
    settings = Settings(command=(*SERVE, str(file)), only=frozenset({"pod-status"}), level="core")
    evidence = await run_experiments(settings, heard, clock)
    await flying
    outcomes = [one.what.outcome for one in evidence.of(ExperimentEnded, "pod-status")]
    (pod,) = pod_runs(evidence)
    shown = {one.resource_id for one in resources(pod.running[-1].what)}
    assert outcomes == ["done"]
    assert shown == {pod.id_of(*one) for one in pod.allocated}
    assert len(list(evidence.of(PodDeleted))) == 1
