"""The devices of a driver, whichever instance of it speaks for them: what they are, how they are, what is wrong."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.control.commands.devices import SetHealth
from drahealth.fakes.control.driver import DriverOptions
from drahealth.fakes.control.taint import Taint
from drahealth.fakes.faults.catalogue import policy
from drahealth.fakes.hardware.failing import FailingDevices
from drahealth.fakes.hardware.inventories import inventory_of
from drahealth.fakes.hardware.machine import DeviceState, Machine
from drahealth.fakes.hardware.published import published_device
from drahealth.fakes.health.table import HealthTable, healthy
from drahealth.fakes.inventory.devices import Device
from drahealth.fakes.kubelet_plugin import Pool
from drahealth.proto.clock import Clock
from drahealth.proto.values import DeviceHealth, Health


class Devices:
    """Those that `options` name; all are well at first."""

    def __init__(self, options: DriverOptions, clock: Clock) -> None:
        self.inventory = inventory_of(options)
        self.given = tuple(self.inventory[path] for path in options.devices)
        """Those that are given away: of one that is divided its parts."""
        self._given = frozenset(options.devices)
        self.taints: dict[str, tuple[Taint, ...]] = {}
        """By path, of those that have any."""
        self.taken: Mapping[str, tuple[Taint, ...]] = {}
        """Those that the API server has taken, when it took any last."""
        self._pool = options.pool_name
        self.table = HealthTable(
            options.name, [healthy(self.pool_of(device), device.name, options.timeout) for device in self.given]
        )
        machine = Machine(self.inventory, options.catalogue, policy(options.policy))
        self._clock = clock
        self.failing = FailingDevices(machine, options.devices, seed=options.seed, clock=clock, tell=self._tell)

    def set_health(self, told: SetHealth) -> None:
        """Reports the devices so, in one report. Raises ValueError for an unknown device."""
        now, changed = int(self._clock.wall()), list[DeviceHealth]()
        for device in self.named(told.device):
            old = self.table.get(self.pool_of(device), device.name)
            health, message = told.health or old.health, old.message if told.message is None else told.message
            timeout = old.timeout if told.timeout is None else told.timeout
            changed.append(replace(old, health=health, message=message, timeout=timeout, updated=now))
        self.table.set(*changed)

    def reset(self) -> None:
        """All are Healthy and have no faults."""
        self.failing.reset()
        now = int(self._clock.wall())
        odd = (device for device in self.table.all() if (device.health, device.message) != (Health.HEALTHY, ""))
        if well := [replace(device, health=Health.HEALTHY, message="", updated=now) for device in odd]:
            self.table.set(*well)

    def named(self, devices: str | Sequence[str]) -> list[Device]:
        """Those of `Inventory.named`, of a divided device its partitions. Raises ValueError."""
        inside = (path for named in self.inventory.named(devices) for path in self.inventory.reached(named, "device"))
        return [self.inventory[path] for path in dict.fromkeys(inside) if path in self._given]

    def pool_of(self, device: Device) -> str:
        """The pool that it is published in."""
        return device.pool or self._pool

    def pools(self) -> dict[str, Pool]:
        """What is published of them."""
        pools: dict[str, list[Object]] = {} if self.given else {self._pool: []}
        for device in self.given:
            published = published_device(device, self.taints.get(device.path, ()))
            pools.setdefault(self.pool_of(device), []).append(published)
        return {name: Pool(devices) for name, devices in pools.items()}

    def taints_taken(self) -> dict[str, tuple[Taint, ...]]:
        """The taints without those that the API server has not taken yet."""
        taken = {p: tuple(t for t in there if t in self.taken.get(p, ())) for p, there in self.taints.items()}
        return {path: there for path, there in taken.items() if there}

    def _tell(self, states: Mapping[str, DeviceState]) -> None:
        """One report of all that has changed."""
        told, final, now = list[DeviceHealth](), list[DeviceHealth](), int(self._clock.wall())
        for path, state in states.items():
            device = self.inventory[path]
            pool = self.pool_of(device)
            timeout = self.table.get(pool, device.name).timeout
            said = DeviceHealth(pool, device.name, state.health, state.message, timeout, now)
            (told if state.listed else final).append(said)
        self.table.set(*told, final=final)
