"""The steps of experiments with faults: break, change and heal, and wait until the driver reports it."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from typing import Literal

from drahealth.proto.events import FaultCleared, FaultInjected
from drahealth.proto.events.faults import ActionOutcome
from drahealth.proto.quoting import one_line
from drahealth.proto.values import Health
from drahealth.suites.checking.experiments.allocating import published_devices
from drahealth.suites.checking.experiments.ending import restarted
from drahealth.suites.checking.experiments.fault_streams import FaultStreams, Shown, expected, fault_streams
from drahealth.suites.checking.experiments.first_steps import plugin_of_process
from drahealth.suites.checking.experiments.published import watched_slices
from drahealth.suites.checking.faults import MARGIN, Action, Fault, SetEnvironment, described
from drahealth.suites.checking.kubelet.plugin import Plugin
from drahealth.suites.checking.lab import Lab
from drahealth.suites.checking.observed.devices import Device
from drahealth.suites.checking.outcomes import Incomplete
from drahealth.suites.checking.subject.adapters import ActionFailed
from drahealth.suites.checking.subject.places import filled

_SLICES_LIMIT = 10.0
"""Seconds to wait for slices before a device is chosen; a driver may have none."""
_LIST_LIMIT = 2.0
"""Seconds to wait for slices that were published before."""
_WORDS = 500  # characters of a problem


class Bench:
    """A driver with open health streams. They are opened again after drahealth started the driver again."""

    def __init__(self, lab: Lab, plugin: Plugin) -> None:
        self.lab = lab
        self.plugin = plugin
        self.streams = FaultStreams(lab, ())
        self._stack = AsyncExitStack()

    async def open(self) -> None:
        """Opens the streams, and waits for their first reports. Raises NotApplicable without health."""
        self.streams = await self._stack.enter_async_context(fault_streams(self.lab, self.plugin))

    async def close(self) -> None:
        """Cancels the streams; no effect if there are none."""
        await self._stack.aclose()

    async def healthy_device(self, fault: Fault) -> Device:
        """The device to break, once it is healthy. Raises Incomplete if there is none."""
        device = await self._device(fault)
        if not await self.streams.show(device, expected(Health.HEALTHY), fault.settle + MARGIN):
            raise Incomplete(f"{device} was not healthy before fault {fault.name}")
        return device

    async def breaks(self, fault: Fault, device: Device, *, change: bool = False) -> bool:
        """Breaks the device, or changes the cause; returns whether the adapter is done."""
        action = fault.changes if change else fault.breaks
        assert action
        step: Literal["break", "change"] = "change" if change else "break"
        began = self.lab.subject.clock.now()
        outcome, problem = await self._act(action, fault, device)
        self.lab.record(
            FaultInjected(
                *(self.lab.subject.label, fault.name, step, device.pool, device.name, _text(action, device)),
                grade="asked" if fault.capability == "asked" else "forced",
                health=fault.health,
                settle=fault.settle,
                outcome=outcome,
                seconds=self.lab.subject.clock.now() - began,
                problem=problem,
                on_error=fault.on_error,
                on_no_effect=fault.on_no_effect,
            )
        )
        return outcome == "done"

    async def breaks_more(self, second: Fault, device: Device) -> bool:
        """Breaks a broken device with a second fault, which changes the cause; returns whether the adapter is done."""
        return await self.breaks(replace(second, changes=second.breaks), device, change=True)

    async def heals(self, fault: Fault, device: Device) -> bool:
        """Heals the device; returns whether the adapter is done. Does nothing if the fault cannot be healed."""
        if fault.heals == "none":
            return False
        began = self.lab.subject.clock.now()
        outcome, problem = await self._act(fault.heals, fault, device)
        self.lab.record(
            FaultCleared(
                *(self.lab.subject.label, fault.name, device.pool, device.name, _text(fault.heals, device)),
                settle=fault.settle,
                outcome=outcome,
                seconds=self.lab.subject.clock.now() - began,
                problem=problem,
                on_error=fault.on_error,
            )
        )
        return outcome == "done"

    async def shows(self, device: Device, shown: Shown, fault: Fault) -> bool:
        """Waits until all streams show it; returns whether any does."""
        return await self.streams.show(device, shown, fault.settle + MARGIN)

    async def follow(self) -> None:
        """Follows the last report of each device, and lists the devices that are published then. Ends an experiment."""
        await self.streams.follow()
        if self.lab.subject.api is not None:
            async with watched_slices(self.lab, self.plugin.driver) as watched:
                with suppress(Incomplete):
                    await watched.complete(self.plugin.driver, _LIST_LIMIT)
                watched.list()

    async def restart(self, environment: dict[str, str] | None = None) -> None:
        """Ends the driver, starts it again, with further variables, and opens the streams again."""
        await self.close()
        self.plugin = await restarted(self.lab, environment, kill=False)
        await self.open()

    async def _act(
        self, action: Action | Literal["restart"], fault: Fault, device: Device
    ) -> tuple[ActionOutcome, str]:
        subject = self.lab.subject
        values = subject.places.placeholders() | {"device": device.name}
        try:
            if action == "restart":
                await self.restart()
            elif isinstance(action, SetEnvironment):
                await self.restart({name: filled(text, values) for name, text in action.variables.items()})
            else:
                assert subject.adapters
                await subject.adapters.perform(action, values, fault.limit)
        except ActionFailed as error:
            return "timed out" if error.timed_out else "failed", one_line(str(error), _WORDS)
        return "done", ""

    async def _device(self, fault: Fault) -> Device:
        """The named device, or one that is neither the first of its slice nor the first of the report."""
        reported = self.streams.reported()
        if fault.device:
            found = [one for one in reported if fault.device in (one.name, str(one))]
            if len(found) != 1:
                problem = (
                    f"pools {', '.join(one.pool for one in found)} have" if found else "the driver does not report"
                )
                raise Incomplete(f"fault {fault.name}: {problem} device {fault.device}")
            return found[0]
        published = await self._published()
        inner = [one for one in reported[1:] if not published or one in published[1:]]
        if not reported:
            raise Incomplete("the driver reports no device")
        return (inner or [one for one in reported if one in published] or reported)[-1]

    async def _published(self) -> list[Device]:
        if self.lab.subject.api is None:
            return []
        async with watched_slices(self.lab, self.plugin.driver) as watched:
            slices = await watched.complete(self.plugin.driver, _SLICES_LIMIT)
        return [Device(one.id.pool, one.id.device) for one in published_devices(slices)]


@asynccontextmanager
async def bench_of(lab: Lab) -> AsyncGenerator[Bench, None]:
    """The driver of the process, registered, with two open streams."""
    bench = Bench(lab, await plugin_of_process(lab))
    try:
        await bench.open()
        yield bench
    finally:
        await bench.close()


def _text(action: Action | str, device: Device) -> str:
    return described(action).replace("{device}", device.name)
