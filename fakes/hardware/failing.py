"""Devices with faults: injected faults and recoveries change the reports of a driver or a device plugin."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from drahealth.fakes.control.commands.devices import Attempt, Clear, Flap, Inject, Recover
from drahealth.fakes.control.commands.surface import Handlers, handles
from drahealth.fakes.faults.catalogue import Action, action
from drahealth.fakes.hardware.machine import DeviceState, Key, Machine, fault_text
from drahealth.fakes.hardware.recoveries import Recoveries
from drahealth.fakes.waiting import first_of
from drahealth.proto.clock import Clock

OnChange = Callable[[Mapping[str, DeviceState]], None]
"""Receives the changed devices by path; at least one."""


@dataclass(slots=True)
class _Flapping:
    """A fault that is injected and cleared again and again."""

    every: float
    due: float
    """Time of the next change."""


class FailingDevices:
    """A machine that reports changes. Recoveries end while the driver runs; due ones end when it starts again.

    `listed` are the paths of the reported devices; for a divided device those of its partitions.
    """

    def __init__(
        self, machine: Machine, listed: Iterable[str], *, seed: int, clock: Clock, on_change: OnChange
    ) -> None:
        self._machine = machine
        self._listed = frozenset(listed)
        self._clock = clock
        self._on_change = on_change
        self._recoveries = Recoveries(machine, seed)
        self._flaps: dict[Key, _Flapping] = {}
        self._started = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    def inject(self, command: Inject) -> Sequence[str]:
        """Injects a fault. Returns the devices that stay Healthy.

        Raises ValueError for an unknown fault or device, or if a device already has the fault.
        """
        self._machine.check_order(command.fault, command.device)
        devices = self._machine.named(command.device)
        self._report(self._machine.inject(command.fault, *devices))
        return [device for device in devices if self._machine.is_healthy(device)]

    def clear(self, command: Clear) -> Sequence[str]:
        """Clears a fault. Returns the devices that had it. Raises ValueError for an unknown fault or device."""
        self._machine.check_order(command.fault, command.device)
        devices = self._machine.named(command.device)
        had = [device for device in devices if self._machine.has(command.fault, device)]
        had += [device for device in devices if (command.fault, device) in self._flaps and device not in had]
        changed = self._machine.clear(command.fault, *devices)
        for device in devices:
            self._recoveries.forget((command.fault, device))
            self._flaps.pop((command.fault, device), None)
        self._report(changed)
        return had

    def flap(self, command: Flap) -> None:
        """Injects and clears a fault periodically.

        Raises ValueError for an unknown fault or device, if a device already flaps or has the fault, and if the driver
        is not running.
        """
        fault, devices = command.fault or self._machine.usual_fault, self._machine.named(command.device)
        if self._running is None:
            raise ValueError("devices flap only while their driver is running; start it first")
        if flapping := [device for device in devices if (fault, device) in self._flaps]:
            raise ValueError(f"already flapping with {fault}: {', '.join(flapping)}")
        self._report(self._machine.inject(fault, *devices))
        due = self._clock.now() + command.every
        self._flaps |= {(fault, device): _Flapping(command.every, due) for device in devices}
        self._started.set()

    def recover(self, command: Recover) -> Attempt:
        """Starts a recovery. Raises ValueError for an unknown action or device, or if a device already recovers."""
        devices = self._machine.named(command.device) if command.device else ()
        begun = self._recoveries.begin(
            *(action(command.action), devices, self._clock.now()),
            takes=command.takes,
            fails=command.fails,
            claimed=command.claimed,
        )
        ended = [] if command.fails or command.claimed else self._end_flaps(action(command.action), devices)
        self._finish()
        self._started.set()
        return Attempt(tuple(dict.fromkeys((*begun.cleared, *ended))), begun.left, begun.takes)

    def reset(self) -> None:
        """Clears all faults."""
        self._recoveries.forget_all()
        self._flaps.clear()
        self._report(self._machine.reset())

    def resume(self) -> None:
        """The driver has started: ends the due recoveries, and the others when they are due."""
        if self._running is None:
            self._running = asyncio.create_task(self._finish_each(), name="recoveries")

    async def suspend(self) -> None:
        """The driver has stopped: reports no changes until `resume`."""
        task, self._running = self._running, None
        self._flaps.clear()
        if task:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _finish_each(self) -> None:
        while True:
            self._started.clear()
            self._finish()
            await first_of(self._started.wait(), self._clock.sleep(self._due - self._clock.now()))

    def _finish(self) -> None:
        self._report(self._recoveries.finish(self._clock.now()) | self._toggled(self._clock.now()))

    def _toggled(self, now: float) -> frozenset[str]:
        """Injects or clears flapping faults that are due; returns the devices whose state changes."""
        changed = frozenset[str]()
        for (fault, device), flapping in self._flaps.items():
            if flapping.due <= now:
                toggle = self._machine.clear if self._machine.has(fault, device) else self._machine.inject
                changed |= toggle(fault, device)
                flapping.due = max(flapping.due + flapping.every, now)
        return changed

    def _end_flaps(self, action: Action, devices: Sequence[str]) -> list[str]:
        """Ends flaps on these devices, or on all, if the action is sufficient for the fault; returns them."""
        inside = {path for device in devices for path in self._machine.reached(device)}
        ended = [key for key in self._flaps if not devices or key[1] in inside]
        ended = [key for key in ended if self._machine.is_sufficient(key[0], action)]
        for key in ended:
            del self._flaps[key]
        return [fault_text(key) for key in ended]

    @property
    def _due(self) -> float:
        """Time of the next end of a recovery or the next flap."""
        return min((self._recoveries.due, *(flapping.due for flapping in self._flaps.values())))

    def faults(self) -> dict[str, tuple[str, ...]]:
        """Faults by path, of the devices with faults."""
        return {path: state.faults for path, state in self._machine.states().items() if state.faults}

    def _report(self, paths: Iterable[str]) -> None:
        if changed := {path: self._machine.state(path) for path in paths if path in self._listed}:
            self._on_change(changed)


class FaultHandlers(Handlers):
    """Handlers of the commands for faults, the same for drivers and device plugins."""

    failing: FailingDevices

    @handles(Inject)
    async def _inject(self, command: Inject) -> Sequence[str]:
        return self.failing.inject(command)

    @handles(Clear)
    async def _clear(self, command: Clear) -> Sequence[str]:
        return self.failing.clear(command)

    @handles(Flap)
    async def _flap(self, command: Flap) -> None:
        self.failing.flap(command)

    @handles(Recover)
    async def _recover(self, command: Recover) -> Attempt:
        return self.failing.recover(command)
