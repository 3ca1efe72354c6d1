"""The experiments that break a device at bad moments: without a stream, an API server or a kubelet, and across ends."""

import asyncio

from drahealth.proto.events import BackendSwitched
from drahealth.proto.values import Health
from drahealth.suites.checking.experiments.allocating import allocator
from drahealth.suites.checking.experiments.claims import Hung, claim_calls, reads_claim
from drahealth.suites.checking.experiments.ending import restarted
from drahealth.suites.checking.experiments.fault_steps import Bench, bench_of
from drahealth.suites.checking.experiments.fault_streams import expected
from drahealth.suites.checking.experiments.registration import register_again
from drahealth.suites.checking.faults import BACKEND_LIMIT, MARGIN, Fault, PatchObject, TellBackend
from drahealth.suites.checking.lab import Lab
from drahealth.suites.checking.observed.devices import Device
from drahealth.suites.checking.outcomes import Incomplete, NotApplicable
from drahealth.suites.checking.settings import NO_BACKEND
from drahealth.suites.checking.subject.adapters import ActionFailed


def lasting_fault(lab: Lab) -> Fault:
    """A fault that is caused and cleared while the driver runs. Raises NotApplicable if there is none."""
    found = [one for one in lab.subject.faults if not one.restarts and one.heals != "none"]
    if not found:
        raise NotApplicable("each fault of the driver profile starts the driver again, or stays")
    return found[0]


async def fault_during_prepare(lab: Lab) -> None:
    """Breaks a device while NodePrepareResources waits for the API server."""
    fault = lasting_fault(lab)
    async with bench_of(lab) as bench, allocator(lab, bench.plugin) as made, claim_calls(lab, bench.plugin) as calls:
        device = await bench.healthy_device(fault)
        claim = await made.claim(made.shapes[0], "fault")
        async with lab.subject.hold_claim_reads(claim.namespace, claim.name, claim.uid) as asked:
            pending = asyncio.create_task(calls.prepare(claim), name="prepare during a fault")
            try:
                if not await reads_claim(lab, asked, pending):
                    raise NotApplicable("the driver does not read the claim from the API server when it prepares it")
                await _break(bench, fault, device)
            except BaseException:
                pending.cancel()
                await asyncio.gather(pending, return_exceptions=True)
                raise
        try:
            await pending
            await calls.unprepare(claim)
        except Hung:
            return
        await _clear(bench, fault, device)


async def fault_without_stream(lab: Lab) -> None:
    """Breaks a device while no stream is open, and opens streams; then clears the fault in the same way."""
    fault = lasting_fault(lab)
    async with bench_of(lab) as bench:
        device = await bench.healthy_device(fault)
        for act in (bench.breaks, bench.heals):
            await bench.close()
            if not await act(fault, device):
                return
            await lab.subject.clock.sleep(fault.settle + MARGIN)
            await bench.open()


async def fault_without_api_server(lab: Lab) -> None:
    """Breaks a device and clears the fault while the API server is down."""
    fault = lasting_fault(lab)
    if any(isinstance(action, PatchObject) for action in fault.actions):
        raise NotApplicable("the fault needs the API server")
    async with bench_of(lab) as bench:
        device = await bench.healthy_device(fault)
        await lab.subject.set_reachable(False)
        try:
            await _break(bench, fault, device)
            await _clear(bench, fault, device)
        finally:
            await lab.subject.set_reachable(True)


async def fault_during_kubelet_restart(lab: Lab) -> None:
    """Closes all streams, breaks a device, registers the driver again, and opens streams."""
    fault = lasting_fault(lab)
    async with bench_of(lab) as bench:
        device = await bench.healthy_device(fault)
        await bench.close()
        done = await bench.breaks(fault, device)
        await lab.subject.clock.sleep(fault.settle + MARGIN)
        await register_again(lab, bench.plugin)
        await bench.open()
        if done:
            await _clear(bench, fault, device)


async def fault_over_restart(lab: Lab) -> None:
    """Breaks a device, kills the driver, and starts it again: the new process reports the fault."""
    fault = lasting_fault(lab)
    if fault.capability == "asked":
        raise NotApplicable("the driver is asked to report the fault, so a new process does not know it")
    async with bench_of(lab) as bench:
        device = await bench.healthy_device(fault)
        if not await _break(bench, fault, device):
            await bench.heals(fault, device)
            return
        await bench.close()
        bench.plugin = await restarted(lab)
        await bench.open()
        await _clear(bench, fault, device)


async def backend_restart(lab: Lab) -> None:
    """Kills a scripted backend, starts it again, and breaks a device."""
    found = [(one, one.breaks.script) for one in lab.subject.faults if isinstance(one.breaks, TellBackend)]
    if not found:
        raise NotApplicable(NO_BACKEND)
    assert lab.subject.adapters
    fault, script = found[0]
    async with bench_of(lab) as bench:
        device = await bench.healthy_device(fault)
        await lab.subject.adapters.kill_backend(script)
        lab.record(BackendSwitched(lab.subject.label, script.name, running=False))
        try:
            await lab.subject.adapters.restart_backend(script)
        except ActionFailed as error:
            raise Incomplete(str(error)) from None
        lab.record(BackendSwitched(lab.subject.label, script.name, running=True))
        await bench.streams.show(device, expected(Health.HEALTHY), BACKEND_LIMIT)
        await _break(bench, fault, device)
        await _clear(bench, fault, device)


async def _break(bench: Bench, fault: Fault, device: Device) -> bool:
    """Breaks the device; returns whether a stream shows it."""
    return await bench.breaks(fault, device) and await bench.shows(device, expected(fault.health), fault)


async def _clear(bench: Bench, fault: Fault, device: Device) -> None:
    if await bench.heals(fault, device):
        await bench.shows(device, expected(Health.HEALTHY), fault)
