"""The Pod on the reference, with a fake driver in a process of its own."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from drahealth.fakes.clock import JumpClock
from drahealth.proto.events import Event, ExperimentEnded, PodDeleted, PodRequested, PreparedClaim, StatusSeen
from drahealth.proto.values import Health
from drahealth.suites.driver_checks.all_checks import CHECKS
from drahealth.suites.driver_checks.device_plugins.observed import plugin_pod_runs
from drahealth.suites.driver_checks.driver_run import DriverRun
from drahealth.suites.driver_checks.evidence import Evidence
from drahealth.suites.driver_checks.mutants.driver import HEALTHY, command
from drahealth.suites.driver_checks.mutants.proving import level_of
from drahealth.suites.driver_checks.observed_pods import pod_runs, resources
from drahealth.suites.driver_checks.real_kubelet import absence, prepared_claims
from drahealth.suites.driver_checks.run_experiments import run_experiments
from drahealth.suites.driver_checks.verdicts import Verdict
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


# The Pod with devices of a device plugin on the reference, with a fake device plugin in a process of its own.

SERVE_PLUGIN = (
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
    driver = {"kind": "device-plugin", "command": (*SERVE_PLUGIN, str(file))}
    asked = run_with({"driver": driver}, only=frozenset({DONE}), level="core")
    evidence = await run_while_the_pod_lives(asked)
    first, second = plugin_pod_runs(evidence, DONE)
    assert [one.what.outcome for one in evidence.of(ExperimentEnded, DONE)] == ["done"]
    assert {resource for resource, _ in first.allocated} == {"example.com/gpu", "example.com/nic"}
    assert (first.allocated, len(list(evidence.of(PodDeleted)))) == (second.allocated, 2)
    assert {check.judge(evidence).verdict for check in CHECKS.values() if check.experiments == (DONE,)} == {
        Verdict.PASS
    }


# The real kubelet of a certification: its checkpoint, and machines without one.

DEVICE = {"PoolName": "p", "DeviceName": "d", "ShareID": None, "RequestNames": ["r"], "CDIDeviceIDs": ["a.com/b=c"]}
STATE = {"ClaimInfoStateList": [{"ClaimUID": "u", "DriverState": {"d.com": {"Devices": [DEVICE]}}}]}


def test_checkpoint_has_the_devices_of_each_claim() -> None:
    device = {"pool_name": "p", "device_name": "d", "request_names": ["r"], "cdi_device_ids": ["a.com/b=c"]}
    found = list(prepared_claims({"Data": json.dumps(STATE), "Checksum": 1}))
    assert found == [PreparedClaim("u", "d.com", (device,))]


@pytest.mark.parametrize("checkpoint", [{}, [], {"Data": "{"}, {"Data": "[]"}, {"Data": '{"ClaimInfoStateList": [1]}'}])
def test_checkpoint_of_another_format_has_no_claims(checkpoint: object) -> None:
    assert [one for one in prepared_claims(checkpoint) if one.devices] == []


async def test_machine_without_its_programs_is_an_error_with_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAHEALTH_CACHE", str(tmp_path))
    only = frozenset({"kubelet-pod-status"})
    evidence = await run_experiments(run_with(command=command(HEALTHY), only=only, level="full"))
    (end,) = evidence.of(ExperimentEnded, "kubelet-pod-status")
    assert (end.what.outcome, "drahealth binaries ensure" in end.what.reason) == ("error", True)
    assert absence()
    assert level_of("busy-while-watched") == "core"


# A run with a Pod, whose clock moves only while the Pod runs.


async def run_while_the_pod_lives(asked: DriverRun) -> Evidence:
    """Runs the experiments. Time flies from the first Healthy device in a Pod status to the deletion of the Pod."""
    clock, running, deleted = JumpClock(), asyncio.Event(), asyncio.Event()

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
    try:
        return await run_experiments(asked, heard, clock)
    finally:
        flying.cancel()  # a Pod that never ran must fail the asserts, not hang the test
        await asyncio.gather(flying, return_exceptions=True)
