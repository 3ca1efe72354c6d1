"""A driver's devices with faults: what is injected and recovered becomes what its health streams say."""

import asyncio
from collections.abc import Iterable

from drahealth.fakes.faults.catalogue import action, policy
from drahealth.fakes.faults.machine import Machine
from drahealth.fakes.faults.recoveries import Recoveries
from drahealth.fakes.hardware.control import Attempt, DriverOptions
from drahealth.fakes.hardware.health_streams import HealthStreams
from drahealth.fakes.inventory import Inventory
from drahealth.fakes.waiting import first_of
from drahealth.proto.clock import Clock
from drahealth.proto.values import DeviceHealth


class FailingDevices:
    """The machine of one driver. Recoveries go on while it runs, and are made up for when it runs again."""

    def __init__(self, options: DriverOptions, inventory: Inventory, health: HealthStreams, clock: Clock) -> None:
        self._pool = options.pool_name
        self._listed = frozenset(options.devices)
        self._health = health
        self._clock = clock
        self._inventory = inventory
        self._machine = Machine(inventory, options.catalogue, policy(options.policy))
        self._recoveries = Recoveries(self._machine, options.seed)
        self._begun = asyncio.Event()
        self._waiting: asyncio.Task[None] | None = None

    def inject(self, fault: str, device: str) -> None:
        """Raises ValueError for a fault or a device that is not there, or one that has the fault already."""
        self._tell(self._machine.inject(fault, device))

    def clear(self, fault: str, device: str) -> None:
        """The fault is gone; nothing for one that is not there."""
        self._recoveries.forget((fault, device))
        self._tell(self._machine.clear(fault, device))

    def recover(self, name: str, device: str, *, fails: bool, claimed: bool, takes: float | None) -> Attempt:
        """What comes of it. Raises ValueError for what is not there, and for a device that is being recovered."""
        begun = self._recoveries.begin(
            action(name), device, self._clock.now(), takes=takes, fails=fails, claimed=claimed
        )
        self._finish()
        self._begun.set()
        return Attempt(begun.cured, begun.left, begun.takes)

    def heal(self) -> None:
        """All is well again."""
        self._recoveries.forget_all()
        self._tell(self._machine.heal())

    def resume(self) -> None:
        """The driver runs: what is over by now shows, and the rest when it is."""
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
        self._tell(self._recoveries.finish(self._clock.now()))

    def faults(self) -> dict[str, tuple[str, ...]]:
        """The faults of each device that has any, by its path."""
        return {path: state.faults for path, state in self._machine.states().items() if state.faults}

    def _tell(self, paths: Iterable[str]) -> None:
        """One report of all that has changed; a device that is divided is known by its parts alone."""
        told, last_words = list[DeviceHealth](), list[DeviceHealth]()
        for path in paths:
            if path not in self._listed:
                continue
            device, state = self._inventory[path], self._machine.state(path)
            pool = device.pool or self._pool
            timeout = self._health.get(pool, device.name).timeout
            said = DeviceHealth(pool, device.name, state.health, state.message, timeout, int(self._clock.wall()))
            (told if state.listed else last_words).append(said)
        if told or last_words:
            self._health.set(*told, last_words=last_words)
