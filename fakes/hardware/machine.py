"""The faults of each device: faults are injected, recovery actions clear them, and a policy gives each device's health.

Pure: no clock and no notifications. The caller reports changes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from drahealth.fakes.faults.catalogue import Action, Fault, Policy, catalogue, fault
from drahealth.fakes.inventory.devices import Inventory
from drahealth.proto.values import Health


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
        return DeviceState(self._policy.health(worst.id), worst.message_for(path), not vanished, ids)

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
