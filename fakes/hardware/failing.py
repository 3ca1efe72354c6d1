"""A driver's devices with faults: what is injected and recovered becomes what its health streams say."""

from collections.abc import Callable, Iterable

from drahealth.fakes.faults.catalogue import action, policy
from drahealth.fakes.faults.machine import Machine
from drahealth.fakes.hardware.control import Attempt, DriverOptions
from drahealth.fakes.hardware.health_streams import HealthStreams
from drahealth.fakes.inventory import Inventory
from drahealth.proto.values import DeviceHealth


class FailingDevices:
    """The machine of one driver. `wall` is the driver's own Unix time."""

    def __init__(
        self, options: DriverOptions, inventory: Inventory, health: HealthStreams, wall: Callable[[], float]
    ) -> None:
        self._pool = options.pool_name
        self._listed = frozenset(options.devices)
        self._health = health
        self._wall = wall
        self._inventory = inventory
        self._machine = Machine(inventory, options.catalogue, policy(options.policy))

    def inject(self, fault: str, device: str) -> None:
        """Raises ValueError for a fault or a device that is not there, or one that has the fault already."""
        self._tell(self._machine.inject(fault, device))

    def clear(self, fault: str, device: str) -> None:
        """The fault is gone; nothing for one that is not there."""
        self._tell(self._machine.clear(fault, device))

    def recover(self, name: str, device: str, *, fails: bool, claimed: bool) -> Attempt:
        """What came of it. Raises ValueError for an action or a device that is not there."""
        attempted = action(name)
        if claimed:
            self._tell(self._machine.claim(device))
            return Attempt()
        recovery = self._machine.recover(attempted, device, fails=fails)
        self._tell(recovery.changed)
        return Attempt(recovery.cured, recovery.left)

    def heal(self) -> None:
        """All is well again."""
        self._tell(self._machine.heal())

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
            said = DeviceHealth(pool, device.name, state.health, state.message, timeout, int(self._wall()))
            (told if state.listed else last_words).append(said)
        if told or last_words:
            self._health.set(*told, last_words=last_words)
