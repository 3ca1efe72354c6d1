"""Devices with faults: what is injected and recovered becomes what a driver, or a device plugin, says of them."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from drahealth.fakes.control.commands.devices import Clear, Flap, Inject, Recover
from drahealth.fakes.control.commands.surface import Handlers, handles
from drahealth.fakes.control.replies import Attempt
from drahealth.fakes.faults.catalogue import Action, action
from drahealth.fakes.hardware.machine import DeviceState, Key, Machine, words
from drahealth.fakes.hardware.recoveries import Recoveries
from drahealth.fakes.waiting import first_of
from drahealth.proto.clock import Clock

Tell = Callable[[Mapping[str, DeviceState]], None]
"""Takes the devices, by path, that are another way now; never none."""


@dataclass(slots=True)
class _Flapping:
    """A fault that comes and goes on a device."""

    every: float
    due: float
    """When it comes or goes next."""


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
        self._flaps: dict[Key, _Flapping] = {}
        self._begun = asyncio.Event()
        self._waiting: asyncio.Task[None] | None = None

    def inject(self, told: Inject) -> None:
        """Raises ValueError for an unknown fault or device, and for a device that has the fault already."""
        self._changed(self._machine.inject(told.fault, *self._machine.named(told.device)))

    def clear(self, told: Clear) -> Sequence[str]:
        """The fault is gone. Returns the devices that had it."""
        devices = self._machine.named(told.device)
        had = [device for device in devices if self._machine.has(told.fault, device)]
        had += [device for device in devices if (told.fault, device) in self._flaps and device not in had]
        changed = self._machine.clear(told.fault, *devices)
        for device in devices:
            self._recoveries.forget((told.fault, device))
            self._flaps.pop((told.fault, device), None)
        self._changed(changed)
        return had

    def flap(self, told: Flap) -> None:
        """Raises ValueError for an unknown fault or device, for a device that flaps or has the fault already, and while
        the driver does not run."""
        fault, devices = told.fault or self._machine.usual_fault, self._machine.named(told.device)
        if self._waiting is None:
            raise ValueError("devices flap only while their driver runs; start it first")
        if flapping := [device for device in devices if (fault, device) in self._flaps]:
            raise ValueError(f"already flapping with {fault}: {', '.join(flapping)}")
        self._changed(self._machine.inject(fault, *devices))
        due = self._clock.now() + told.every
        self._flaps |= {(fault, device): _Flapping(told.every, due) for device in devices}
        self._begun.set()

    def recover(self, told: Recover) -> Attempt:
        """The outcome. Raises ValueError for an unknown action or device, and for a device that is being recovered."""
        devices = self._machine.named(told.device) if told.device else ()
        begun = self._recoveries.begin(
            *(action(told.action), devices, self._clock.now()),
            takes=told.takes,
            fails=told.fails,
            claimed=told.claimed,
        )
        ended = [] if told.fails or told.claimed else self._end_flaps(action(told.action), devices)
        self._finish()
        self._begun.set()
        return Attempt(tuple(dict.fromkeys((*begun.cured, *ended))), begun.left, begun.takes)

    def reset(self) -> None:
        """No device has faults any more."""
        self._recoveries.forget_all()
        self._flaps.clear()
        self._changed(self._machine.reset())

    def resume(self) -> None:
        """The driver runs: what is over by now shows, and the rest when it is."""
        if self._waiting is None:
            self._waiting = asyncio.create_task(self._finish_each(), name="recoveries")

    async def suspend(self) -> None:
        """The driver runs no more, so nothing shows."""
        task, self._waiting = self._waiting, None
        self._flaps.clear()
        if task:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _finish_each(self) -> None:
        while True:
            self._begun.clear()
            self._finish()
            await first_of(self._begun.wait(), self._clock.sleep(self._due - self._clock.now()))

    def _finish(self) -> None:
        self._changed(self._recoveries.finish(self._clock.now()) | self._toggled(self._clock.now()))

    def _toggled(self, now: float) -> frozenset[str]:
        """The faults that flap come or go, if it is time; returns the devices whose state changes."""
        changed = frozenset[str]()
        for (fault, device), flapping in self._flaps.items():
            if flapping.due <= now:
                toggle = self._machine.clear if self._machine.has(fault, device) else self._machine.inject
                changed |= toggle(fault, device)
                flapping.due = max(flapping.due + flapping.every, now)
        return changed

    def _end_flaps(self, action: Action, devices: Sequence[str]) -> list[str]:
        """Those on the devices, or on all if none is named, for which the action is enough."""
        inside = {path for device in devices for path in self._machine.reached(device)}
        ended = [key for key in self._flaps if not devices or key[1] in inside]
        ended = [key for key in ended if self._machine.is_enough(key[0], action)]
        for key in ended:
            del self._flaps[key]
        return [words(key) for key in ended]

    @property
    def _due(self) -> float:
        """When the next recovery is over or the next flap is due."""
        return min((self._recoveries.due, *(flapping.due for flapping in self._flaps.values())))

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

    @handles(Flap)
    async def _flap(self, told: Flap) -> None:
        self.failing.flap(told)

    @handles(Recover)
    async def _recover(self, told: Recover) -> Attempt:
        return self.failing.recover(told)
