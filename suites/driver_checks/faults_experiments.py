"""The experiments that break devices, at all moments, and that interrupt a driver."""

import asyncio
import itertools
import signal
from collections.abc import AsyncGenerator, Sequence, Set
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

from drahealth.fakes.waiting import cancel_and_wait
from drahealth.proto.events import BackendSwitched
from drahealth.proto.values import DeviceHealth, Health
from drahealth.suites.driver_checks.claims_experiments import Hung, allocator, claim_calls, claims_beside, reads_claim
from drahealth.suites.driver_checks.experiments import EXPERIMENTS, NO_BACKEND, Incomplete, NotApplicable
from drahealth.suites.driver_checks.fault_plan import together
from drahealth.suites.driver_checks.fault_plan_experiments import HELD, targets_of
from drahealth.suites.driver_checks.faults_steps import Bench, bench_of, expected
from drahealth.suites.driver_checks.lab import Lab
from drahealth.suites.driver_checks.observed import PUBLISH_LIMIT, SLICES_LIMIT, Device
from drahealth.suites.driver_checks.profile.faults import (
    BACKEND_LIMIT,
    MARGIN,
    Fault,
    PatchObject,
    TellBackend,
    lasting,
    overlap,
    pairs,
)
from drahealth.suites.driver_checks.registration_experiments import (
    call_without_claims,
    plugin_of_process,
    register_again,
    restarted,
)
from drahealth.suites.driver_checks.slice_watch import watched_slices
from drahealth.suites.driver_checks.subject.subject import ActionFailed

# The experiments that interrupt a driver: it is stopped, has no subscriber, and its kubelet restarts.

STOPPED_SECONDS = 5.0
"""Seconds for which the driver is stopped."""
IDLE_SECONDS = 36.0
"""Seconds without a subscriber: longer than the kubelet's default timeout of 30 s."""


async def stop_and_continue(lab: Lab) -> None:
    """Stops the driver for 5 s with SIGSTOP, continues it with SIGCONT, and waits for a report on each stream."""
    async with bench_of(lab) as bench:
        async with stopped(lab):
            await lab.subject.clock.sleep(STOPPED_SECONDS)
        await bench.streams.report_again()
    lab.subject.check_running()


@asynccontextmanager
async def stopped(lab: Lab) -> AsyncGenerator[None, None]:
    """The driver is stopped with SIGSTOP, and continued with SIGCONT at the end."""
    await lab.subject.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        await lab.subject.signal(signal.SIGCONT)


async def idle(lab: Lab) -> None:
    """Breaks a device, closes all streams for 36 s, opens them again, and follows their reports.

    Then the device recovers. The driver is registered again, and each device breaks while it is prepared for a claim:
    with one fault for each health that a fault can cause.
    """
    faults: list[Fault] = []
    for one in lab.subject.faults:
        if one.lasts and one.health not in {other.health for other in faults}:
            faults.append(one)
    async with bench_of(lab) as bench:
        await bench.published()
        device = await bench.healthy_device(faults[0]) if faults else None
        if device:
            await _break(bench, faults[0], device)
        await bench.close()
        await lab.subject.clock.sleep(IDLE_SECONDS)
        lab.subject.check_running()
        await bench.open()
        await bench.follow()
        if device:
            await _clear(bench, faults[0], device)
        await register_again(lab, bench.plugin)
        published = await bench.published()
        async with AsyncExitStack() as stack:
            if published:
                claims = await stack.enter_async_context(claims_beside(lab, bench.plugin))
                await claims.try_each()
                await claims.hold_each()
                stack.push_async_callback(claims.release)
            for fault, first in itertools.product(faults, (0, 1)):  # the other devices are bystanders
                devices = [one.device for one in (await targets_of(bench, published))[0]]
                if mine := together(fault, devices[first::2]):
                    await _break_together(bench, fault, mine)
        await bench.follow()


async def _break_together(bench: Bench, fault: Fault, devices: Sequence[Device]) -> None:
    """Breaks devices side by side, changes the cause, follows the next reports, and clears the fault."""
    await asyncio.gather(*(_break(bench, fault, one) for one in devices))
    if fault.change:
        await asyncio.gather(*(_change(bench, fault, one) for one in devices))
    await bench.streams.follow(limit=HELD)
    await asyncio.gather(*(_clear(bench, fault, one) for one in devices))


async def kubelet_restart(lab: Lab) -> None:
    """Deletes the ResourceSlices, as a starting kubelet does, registers the driver again, and waits for slices."""
    plugin = await plugin_of_process(lab)
    async with watched_slices(lab, plugin.driver) as watched:
        published = await watched.complete(plugin.driver)
        if not published:
            raise Incomplete(f"the driver published no ResourceSlice within {PUBLISH_LIMIT:g} s")
        watched.list()
        for one in published:
            await watched.delete(one)
        await register_again(lab, plugin)
        for one in published:
            await watched.returned(one, SLICES_LIMIT)
        watched.list()
        await call_without_claims(lab, plugin)
    lab.subject.check_running()


# The experiments that break a device at bad moments: without a stream, an API server or a kubelet, and across ends.

FAULT_STOPPED_SECONDS = 3.0
"""Seconds for which the driver stays stopped after an action."""


def lasting_faults(lab: Lab, experiment: str = "") -> tuple[Fault, ...]:
    """The faults that an experiment causes and clears while the driver runs. Raises NotApplicable if there is none."""
    each = (EXPERIMENTS[experiment].seconds_per_fault or 0.0) if experiment else 0.0
    if found := lasting(lab.subject.faults, each):
        return found
    raise NotApplicable("each fault of the driver profile starts the driver again, or is never cleared")


async def fault_during_prepare(lab: Lab) -> None:
    """Breaks a device while NodePrepareResources waits for the API server, with each fault."""
    faults = lasting_faults(lab, "fault-during-prepare")
    async with bench_of(lab) as bench, allocator(lab, bench.plugin) as made, claim_calls(lab, bench.plugin) as calls:
        for number, fault in enumerate(faults):
            device = await bench.healthy_device(fault)
            claim = await made.claim(made.shapes[0], f"fault-{number}")
            async with lab.subject.hold_claim_reads(claim.namespace, claim.name, claim.uid) as asked:
                pending = asyncio.create_task(calls.prepare(claim), name="prepare during a fault")
                try:
                    if not await reads_claim(lab, asked, pending):
                        raise NotApplicable(
                            "the driver does not read the claim from the API server when it prepares it"
                        )
                    await _break(bench, fault, device)
                except BaseException:
                    await cancel_and_wait(pending)
                    raise
            try:
                await pending
                await calls.unprepare(claim)
            except Hung:
                return
            await _clear(bench, fault, device)


async def fault_without_stream(lab: Lab) -> None:
    """Breaks a device while no stream is open, and opens streams; then clears the fault in the same way."""
    faults = lasting_faults(lab, "fault-without-stream")
    async with bench_of(lab) as bench:
        for fault in faults:
            device = await bench.healthy_device(fault)
            for act in (bench.breaks, bench.heals):
                await bench.close()
                if not await act(fault, device):
                    return
                await lab.subject.clock.sleep(fault.settle + MARGIN)
                await bench.open()


async def fault_without_api_server(lab: Lab) -> None:
    """Breaks a device and clears the fault while the API server is down."""
    faults = [
        one
        for one in lasting_faults(lab, "fault-without-api-server")
        if not any(isinstance(action, PatchObject) for action in one.actions)
    ]
    if not faults:
        raise NotApplicable("each fault needs the API server")
    async with bench_of(lab) as bench:
        for fault in faults:
            device = await bench.healthy_device(fault)
            await lab.subject.set_reachable(False)
            try:
                await _break(bench, fault, device)
                await _clear(bench, fault, device)
            finally:
                await lab.subject.set_reachable(True)


async def fault_during_kubelet_restart(lab: Lab) -> None:
    """Closes all streams, breaks a device, registers the driver again, and opens streams."""
    faults = lasting_faults(lab, "fault-during-kubelet-restart")
    async with bench_of(lab) as bench:
        for fault in faults:
            device = await bench.healthy_device(fault)
            await bench.close()
            done = await bench.breaks(fault, device)
            await lab.subject.clock.sleep(fault.settle + MARGIN)
            await register_again(lab, bench.plugin)
            await bench.open()
            if not done:
                break
            await _clear(bench, fault, device)
        await bench.follow()


async def fault_while_stopped(lab: Lab) -> None:
    """Breaks a device, and clears the fault, while the driver is stopped with SIGSTOP."""
    faults = [
        one
        for one in lasting_faults(lab, "fault-while-stopped")
        if one.capability == "forced" or isinstance(one.break_, PatchObject)
    ]
    if not faults:
        raise NotApplicable("each fault needs an answer of the driver, and a stopped driver cannot answer")
    async with bench_of(lab) as bench:
        for fault in faults:
            device = await bench.healthy_device(fault)
            for act, health in ((bench.breaks, fault.health), (bench.heals, Health.HEALTHY)):
                async with stopped(lab):
                    done = await act(fault, device)
                    await lab.subject.clock.sleep(FAULT_STOPPED_SECONDS)
                if not done:
                    return
                await bench.shows(device, expected(health), fault)
    lab.subject.check_running()


async def second_fault(lab: Lab) -> None:
    """Breaks a device with a fault, and then with another one: the driver must not report it as healthy."""
    found = pairs(lasting_faults(lab, "second-fault"))
    if not found:
        raise NotApplicable("the driver profile does not have two faults of one device")
    async with bench_of(lab) as bench:
        for number, (first, second) in enumerate(found):
            try:
                device = await bench.healthy_device(first)
            except Incomplete:
                if number:
                    return  # the faults of an earlier pair cannot be cleared together
                raise
            if not await _break(bench, first, device):
                await bench.heals(first, device)
                return
            before = {(one.health, one.message) for one in bench.streams.of(device)}
            done = await bench.breaks_more(second, device, (first.health, second.health))
            if done:
                await bench.shows(device, partial(_differs, before), second, message=True)
            if not done or not overlap(first, second):
                await bench.heals(first, device, (second.health,) if done else ())
            if done and await bench.heals(second, device):
                await bench.shows(device, expected(Health.HEALTHY), second)


def _differs(before: Set[tuple[Health, str]], shown: DeviceHealth) -> bool:
    return (shown.health, shown.message) not in before


async def fault_over_restart(lab: Lab) -> None:
    """Breaks a device, kills the driver, and starts it again: the new process reports the fault, and continues."""
    faults = [one for one in lasting_faults(lab, "fault-over-restart") if one.capability == "forced"]
    if not faults:
        raise NotApplicable(
            "drahealth requests each fault from the driver, and a new process of the driver loses this request"
        )
    async with bench_of(lab) as bench:
        for fault in faults:
            device = await bench.healthy_device(fault)
            if not await _break(bench, fault, device):
                await bench.heals(fault, device)
                return
            await bench.close()
            bench.plugin = await restarted(lab)
            await bench.open()
            await bench.still_tainted(fault, device)
            await bench.shows(device, expected(fault.health), fault)
            await _clear(bench, fault, device)
        await bench.follow()


async def backend_restart(lab: Lab) -> None:
    """Kills each scripted backend, starts it again, and breaks a device with each of its faults."""
    faults = [one for one in lab.subject.faults if isinstance(one.break_, TellBackend)]
    if not faults:
        raise NotApplicable(NO_BACKEND)
    async with bench_of(lab) as bench:
        for script in dict.fromkeys(one.break_.script for one in faults if isinstance(one.break_, TellBackend)):
            mine = [one for one in faults if isinstance(one.break_, TellBackend) and one.break_.script == script]
            device = await bench.healthy_device(mine[0])
            await _restart(lab, script)
            connected = lab.subject.clock.now() + BACKEND_LIMIT
            await bench.streams.show(device, expected(Health.HEALTHY), BACKEND_LIMIT)
            for fault in lasting(mine, 0) or mine[:1]:
                device = await bench.healthy_device(fault)
                if await bench.breaks(fault, device):  # perhaps not connected yet: Healthy can be an old report
                    settle = fault.settle + max(connected - lab.subject.clock.now(), 0.0)
                    await bench.shows(device, expected(fault.health), fault.model_copy(update={"settle": settle}))
                await _clear(bench, fault, device)


async def _restart(lab: Lab, script: Path) -> None:
    """Kills a backend, and starts it again. Raises Incomplete."""
    assert lab.subject.adapters
    await lab.subject.adapters.kill_backend(script)
    lab.record(BackendSwitched(lab.subject.label, script.name, running=False))
    try:
        await lab.subject.adapters.restart_backend(script)
    except ActionFailed as error:
        raise Incomplete(str(error)) from None
    lab.record(BackendSwitched(lab.subject.label, script.name, running=True))


async def _break(bench: Bench, fault: Fault, device: Device) -> bool:
    """Breaks the device; returns whether a stream shows it."""
    if not await bench.breaks(fault, device):
        return False
    shown = await bench.shows(device, expected(fault.health), fault)
    await bench.tainted(fault, device)
    return shown


async def _clear(bench: Bench, fault: Fault, device: Device) -> None:
    if await bench.heals(fault, device):
        await bench.shows(device, expected(Health.HEALTHY), fault)
        await bench.tainted(fault, device, so=False)


# The experiments that break devices of a driver, change the cause, and heal them.


async def faults(lab: Lab) -> None:
    """Breaks, changes and heals a device with each fault of the profile, one after another."""
    async with bench_of(lab) as bench:
        for fault in sorted(lab.subject.faults, key=lambda one: one.heal == "none"):
            await _one(bench, fault)
        await bench.follow()
    lab.subject.check_running()


async def _one(bench: Bench, fault: Fault) -> None:
    device = await bench.healthy_device(fault)
    if not await bench.breaks(fault, device):
        await bench.heals(fault, device)
        return
    shown = await bench.shows(device, expected(fault.health), fault)
    await bench.tainted(fault, device)
    if shown and fault.change:
        await _change(bench, fault, device)
    await _clear(bench, fault, device)


async def _change(bench: Bench, fault: Fault, device: Device) -> None:
    """Changes the cause of a fault."""
    before = {(one.health, one.message) for one in bench.streams.of(device)}
    if await bench.breaks(fault, device, change=True):
        await bench.shows(device, partial(_differs, before), fault, message=True)
