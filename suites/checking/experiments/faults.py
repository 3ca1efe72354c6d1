"""The experiments that break devices of a driver, change the cause, and heal them."""

from collections.abc import Callable, Coroutine
from typing import Any

from drahealth.proto.values import Health
from drahealth.suites.checking.experiments.fault_moments import (
    backend_restart,
    fault_during_kubelet_restart,
    fault_during_prepare,
    fault_over_restart,
    fault_while_stopped,
    fault_without_api_server,
    fault_without_stream,
    second_fault,
)
from drahealth.suites.checking.experiments.fault_steps import Bench, bench_of
from drahealth.suites.checking.experiments.fault_streams import expected
from drahealth.suites.checking.experiments.interruptions import idle, kubelet_restart, stop_and_continue
from drahealth.suites.checking.faults import Fault
from drahealth.suites.checking.lab import Lab


async def faults(lab: Lab) -> None:
    """Breaks, changes and heals a device with each fault of the profile, one after another."""
    async with bench_of(lab) as bench:
        for fault in sorted(lab.subject.faults, key=lambda one: one.heals == "none"):
            await _one(bench, fault)
        await bench.follow()
    lab.subject.check_running()


async def _one(bench: Bench, fault: Fault) -> None:
    device = await bench.healthy_device(fault)
    if not await bench.breaks(fault, device):
        await bench.heals(fault, device)
        return
    shown = await bench.shows(device, expected(fault.health), fault)
    if shown and fault.changes:
        before = {(one.health, one.message) for one in bench.streams.of(device)}
        if await bench.breaks(fault, device, change=True):
            await bench.shows(device, lambda one: (one.health, one.message) not in before, fault)
    if await bench.heals(fault, device):
        await bench.shows(device, expected(Health.HEALTHY), fault)


FAULT_RUNS: dict[str, Callable[[Lab], Coroutine[Any, Any, None]]] = {
    "faults": faults,
    "fault-during-prepare": fault_during_prepare,
    "fault-without-stream": fault_without_stream,
    "fault-without-api-server": fault_without_api_server,
    "fault-during-kubelet-restart": fault_during_kubelet_restart,
    "backend-restart": backend_restart,
    "stop-and-continue": stop_and_continue,
    "fault-while-stopped": fault_while_stopped,
    "fault-over-restart": fault_over_restart,
    "second-fault": second_fault,
    "idle": idle,
    "kubelet-restart": kubelet_restart,
}
"""The function of each experiment of `fault_plan`."""
