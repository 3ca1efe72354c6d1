"""Devices with faults: what is injected and recovered becomes what a driver, or a device plugin, says of them."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

from drahealth.fakes.control.commands.devices import Clear, Inject, Recover
from drahealth.fakes.control.commands.surface import Handlers, handles
from drahealth.fakes.control.replies import Attempt
from drahealth.fakes.faults.catalogue import action
from drahealth.fakes.hardware.machine import DeviceState, Machine
from drahealth.fakes.hardware.recoveries import Recoveries
from drahealth.fakes.waiting import first_of
from drahealth.proto.clock import Clock

Tell = Callable[[Mapping[str, DeviceState]], None]
"""Takes the devices, by path, that are another way now; never none."""


class FailingDevices:
    """A machine that tells. Recoveries go on while its driver runs, and are made up for when it runs again.

    `listed` are the paths of the devices that are told of: one that is divided is known by its parts alone.
    """

    def __init__(self, machine: Machine, listed: Iterable[str], *, seed: int, clock: Clock, tell: Tell) -> None:
        self._machine = machine
        self._listed = frozenset(listed)
        self._clock = clock
        self._tell = tell
        self._recoveries = Recoveries(machine, seed)
        self._begun = asyncio.Event()
        self._waiting: asyncio.Task[None] | None = None

    def inject(self, told: Inject) -> None:
        """Raises ValueError for an unknown fault or device, and for a device that has the fault already."""
        self._changed(self._machine.inject(told.fault, *self._machine.named(told.device)))

    def clear(self, told: Clear) -> Sequence[str]:
        """The fault is gone. Returns the devices that had it."""
        devices = self._machine.named(told.device)
        had = [device for device in devices if self._machine.has(told.fault, device)]
        changed = self._machine.clear(told.fault, *devices)
        for device in devices:
            self._recoveries.forget((told.fault, device))
        self._changed(changed)
        return had

    def recover(self, told: Recover) -> Attempt:
        """The outcome. Raises ValueError for an unknown action or device, and for a device that is being recovered."""
        devices = self._machine.named(told.device) if told.device else ()
        begun = self._recoveries.begin(
            *(action(told.action), devices, self._clock.now()),
            takes=told.takes,
            fails=told.fails,
            claimed=told.claimed,
        )
        self._finish()
        self._begun.set()
        return Attempt(begun.cured, begun.left, begun.takes)

    def reset(self) -> None:
        """No device has faults any more."""
        self._recoveries.forget_all()
        self._changed(self._machine.reset())

    def resume(self) -> None:
        """The driver runs: what is over by now shows, and the rest when it is."""
        if self._waiting is None:
            self._waiting = asyncio.create_task(self._finish_each(), name="recoveries")

    async def suspend(self) -> None:
        """The driver runs no more, so nothing shows."""
        task, self._waiting = self._waiting, None
        if task:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _finish_each(self) -> None:
        while True:
            self._begun.clear()
            self._finish()
            await first_of(self._begun.wait(), self._clock.sleep(self._recoveries.due - self._clock.now()))

    def _finish(self) -> None:
        self._changed(self._recoveries.finish(self._clock.now()))

    def faults(self) -> dict[str, tuple[str, ...]]:
        """The faults of each device that has any, by its path."""
        return {path: state.faults for path, state in self._machine.states().items() if state.faults}

    def _changed(self, paths: Iterable[str]) -> None:
        if changed := {path: self._machine.state(path) for path in paths if path in self._listed}:
            self._tell(changed)


class FaultHandlers(Handlers):
    """The commands about faults, which drivers and device plugins handle alike."""

    failing: FailingDevices

    @handles(Inject)
    async def _inject(self, told: Inject) -> None:
        self.failing.inject(told)

    @handles(Clear)
    async def _clear(self, told: Clear) -> Sequence[str]:
        return self.failing.clear(told)

    @handles(Recover)
    async def _recover(self, told: Recover) -> Attempt:
        return self.failing.recover(told)
