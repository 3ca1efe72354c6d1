"""Devices with faults: what a fault does, what clears it, and how long a recovery takes."""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from drahealth.fakes.control.commands import Attempt, Clear, Flap, Inject, Recover
from drahealth.fakes.control.definition import Handlers, handles
from drahealth.fakes.faults.catalogue import Action, Fault, Policy, action, catalogue, fault
from drahealth.fakes.inventory.devices import Inventory
from drahealth.fakes.waiting import cancel_and_wait, first_of
from drahealth.proto.clock import Clock
from drahealth.proto.values import Health

# The faults of each device: faults are injected, recovery actions clear them, and a policy gives each device's
# health.
#
# Pure: no clock and no notifications. The caller reports changes.


@dataclass(frozen=True, slots=True)
class DeviceState:
    """The state of a device as the driver knows and reports it."""

    health: Health = Health.HEALTHY
    message: str = ""
    listed: bool = True
    """False: reports omit the device."""
    faults: tuple[str, ...] = ()
    """Ids of all faults, including silent ones."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """The result of a recovery action: the cleared faults and the remaining ones, as `fault on device`."""

    cleared: tuple[str, ...]
    left: tuple[str, ...]
    changed: frozenset[str] = frozenset()
    """Paths of the devices whose state changed."""


Key = tuple[str, str]
"""Id of a fault, and path of its device."""


class Machine:
    """The devices of an inventory under a policy. A device has each fault at most once."""

    def __init__(self, inventory: Inventory, catalogue: str, policy: Policy) -> None:
        self._inventory = inventory
        self._catalogue = catalogue
        self._policy = policy
        self._faults: dict[Key, Fault] = {}
        self._reaching: dict[str, dict[Key, Fault]] = {device.path: {} for device in inventory.devices}
        self._claimed: set[Key] = set()

    def named(self, devices: str | Sequence[str]) -> list[str]:
        """The paths of devices (`Inventory.named`). Raises ValueError."""
        return self._inventory.named(devices)

    def check_order(self, fault_id: str, devices: str | Sequence[str]) -> None:
        """Raises ValueError for the name of a device in the place of the fault, and the reverse."""
        device = devices if isinstance(devices, str) else "" if len(devices) != 1 else devices[0]
        if fault_id in self._reaching and device in catalogue(self._catalogue):
            raise ValueError(f"{fault_id} is a device and {device} is a fault; pass the fault before the device")

    def inject(self, fault_id: str, *devices: str) -> frozenset[str]:
        """Adds a fault to devices; returns the paths of devices whose state changes.

        Raises UnknownName, and ValueError if a device is unknown or has the fault already; nothing changes then.
        """
        found = fault(self._catalogue, fault_id)
        reached = {device: self._inventory.reached(device, found.reaches) for device in devices}
        if has := [device for device in devices if self.has(fault_id, device)]:
            raise ValueError(f"{', '.join(has)} already {'has' if len(has) == 1 else 'have'} {fault_id}")
        for device, paths in reached.items():
            self._faults[fault_id, device] = found
            for path in paths:
                self._reaching[path][fault_id, device] = found
        return frozenset(path for paths in reached.values() for path in paths)

    @property
    def usual_fault(self) -> str:
        """The first fault of the catalogue that keeps a device listed, if possible one that makes it Unhealthy."""
        seen = (known for known in catalogue(self._catalogue).values() if not known.vanishes and not known.silent)
        return min(seen, key=lambda known: self._policy.health(known.id) is not Health.UNHEALTHY).id

    def reached(self, device: str) -> Sequence[str]:
        """The device and its partitions. Raises ValueError."""
        return self._inventory.reached(device, "device")

    def is_sufficient(self, fault_id: str, action: Action) -> bool:
        """Whether the action is sufficient for this fault of the catalogue."""
        return fault(self._catalogue, fault_id).is_recovered_by(action)

    def has(self, fault_id: str, device: str) -> bool:
        """Whether the device itself has the fault."""
        return (fault_id, device) in self._faults

    def clear(self, fault_id: str, *devices: str) -> frozenset[str]:
        """Removes a fault from the devices that have it; returns the paths of devices whose state changes.

        Raises ValueError for an unknown fault or device.
        """
        fault(self._catalogue, fault_id)
        return self._remove([(fault_id, self._inventory[device].path) for device in devices])

    def recover(self, action: Action, *devices: str, fails: bool = False) -> Recovery:
        """Runs a recovery action on devices or all, immediately. Faults stay if the action is too weak or `fails`.

        Recovering a whole device recovers its partitions.
        """
        there = self.faults_on(*devices)
        cleared = [] if fails else [key for key in there if self.is_recovered(key, action)]
        changed = self.cure(cleared)
        return Recovery(
            tuple(map(fault_text, cleared)),
            tuple(fault_text(key) for key in there if key not in cleared),
            changed,
        )

    def faults_on(self, *devices: str) -> list[Key]:
        """The faults on devices and their partitions; without devices, all faults."""
        inside = {path for device in devices for path in self._inventory.reached(device, "device")}
        return [key for key in self._faults if not devices or key[1] in inside]

    def fault(self, key: Key) -> Fault:
        """The catalogue's entry of a fault."""
        return self._faults[key]

    def is_recovered(self, key: Key, action: Action) -> bool:
        """Whether the action clears the fault."""
        return self._faults[key].is_recovered_by(action)

    def cure(self, keys: Iterable[Key]) -> frozenset[str]:
        """Removes these faults; returns the paths of devices whose state changes."""
        return self._remove(list(keys))

    def claim(self, keys: Iterable[Key]) -> frozenset[str]:
        """The driver reports its devices as recovered from these faults, although they are not."""
        claimed = [key for key in keys if key in self._faults and key not in self._claimed]
        self._claimed.update(claimed)
        return self._reached(claimed)

    def reset(self) -> frozenset[str]:
        """Removes all faults of all devices."""
        return self._remove(list(self._faults))

    def state(self, path: str) -> DeviceState:
        """The state of one device. Raises ValueError for an unknown device."""
        mine = self._reaching[self._inventory[path].path]
        visible = [found for key, found in mine.items() if not found.silent and key not in self._claimed]
        ids = tuple(id_ for id_, _ in mine)
        if not visible:
            return DeviceState(faults=ids)
        bad = [found for found in visible if self._policy.health(found.id) is Health.UNHEALTHY]
        worst = (bad or visible)[-1]  # the newest one
        vanished = any(found.vanishes for found in bad)
        return DeviceState(
            self._policy.health(worst.id), worst.message_for(self._inventory[path].path_on_node), not vanished, ids
        )

    def is_healthy(self, path: str) -> bool:
        """Whether the device and its partitions are reported, all as Healthy. Raises ValueError."""
        states = map(self.state, self.reached(path))
        return all(state.listed and state.health is Health.HEALTHY for state in states)

    def states(self) -> dict[str, DeviceState]:
        """The state of all devices, in the inventory's order."""
        return {device.path: self.state(device.path) for device in self._inventory.devices}

    def _remove(self, keys: list[Key]) -> frozenset[str]:
        there = [key for key in keys if key in self._faults]
        reached = self._reached(there)
        for path in reached:
            for key in there:
                self._reaching[path].pop(key, None)
        for key in there:
            del self._faults[key]
            self._claimed.discard(key)
        return reached

    def _reached(self, keys: list[Key]) -> frozenset[str]:
        return frozenset(path for key in keys for path in self._inventory.reached(key[1], self._faults[key].reaches))


def fault_text(key: Key) -> str:
    """The fault in fault_text."""
    return f"{key[0]} on {key[1]}"


# Recoveries with a duration: the device's state does not change until the end. Pure: the time is an argument.
#
# During a recovery no other recovery of the device can start, as with a GPU reset. Faults that are injected during a
# recovery are not cleared by it.

Outcome = Literal["cleared", "claimed", "nothing"]


@dataclass(frozen=True, slots=True)
class StartedRecovery:
    """A started recovery: the faults it will clear, the remaining faults, and the seconds until its end."""

    cleared: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    takes: float = 0.0


class Recoveries:
    """The recoveries of one machine. Ranges of the catalogue are drawn from the seed."""

    def __init__(self, machine: Machine, seed: int = 0) -> None:
        self._machine = machine
        self._seed = seed
        self._drawn: Counter[Key] = Counter()
        self._running: dict[Key, tuple[float, Outcome]] = {}

    def begin(
        self,
        action: Action,
        devices: Sequence[str],
        now: float,
        *,
        takes: float | None = 0.0,
        fails: bool = False,
        claimed: bool = False,
    ) -> StartedRecovery:
        """Starts a recovery action on devices, or on all. `takes` is in seconds; None uses the catalogue's duration.

        Raises ValueError for a device that is already recovering.
        """
        there = self._machine.faults_on(*devices)
        if busy := [key for key in there if key in self._running]:
            left = max(self._running[key][0] for key in busy) - now
            raise ValueError(f"{busy[0][1]} is already recovering from {busy[0][0]}; wait {max(left, 0):.1f} s")
        cleared = [key for key in there if not fails and not claimed and self._machine.is_recovered(key, action)]
        longest = 0.0
        for key in there:
            seconds = self._draw(key) if takes is None else takes
            outcome: Outcome = "cleared" if key in cleared else "claimed" if claimed else "nothing"
            self._running[key] = (now + seconds, outcome)
            longest = max(longest, seconds)
        return StartedRecovery(
            tuple(map(fault_text, cleared)),
            tuple(fault_text(key) for key in there if key not in cleared),
            longest,
        )

    @property
    def due(self) -> float:
        """The end of the next recovery; infinite if there is none."""
        return min((due for due, _ in self._running.values()), default=math.inf)

    def finish(self, now: float) -> frozenset[str]:
        """Ends recoveries that are due; returns the paths of devices whose state changes."""
        over = {key: outcome for key, (due, outcome) in self._running.items() if due <= now}
        for key in over:
            del self._running[key]
        cleared = self._machine.cure([key for key, outcome in over.items() if outcome == "cleared"])
        return cleared | self._machine.claim([key for key, outcome in over.items() if outcome == "claimed"])

    def forget(self, key: Key) -> None:
        """Removes a fault that was cleared by other means."""
        self._running.pop(key, None)

    def forget_all(self) -> None:
        """Removes all recoveries."""
        self._running.clear()

    def _draw(self, key: Key) -> float:
        self._drawn[key] += 1
        return self._machine.fault(key).takes.draw(Random(f"{self._seed}/{key[0]}/{key[1]}/{self._drawn[key]}"))


# Devices with faults: injected faults and recoveries change the reports of a driver or a device plugin.

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
            await cancel_and_wait(task)

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
        for (name, device), flapping in self._flaps.items():
            if flapping.due <= now:
                toggle = self._machine.clear if self._machine.has(name, device) else self._machine.inject
                changed |= toggle(name, device)
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
