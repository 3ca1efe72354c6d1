"""What a driver says of each of its devices, whoever is told of it.

The instances of a rolling update share one, so that each of them says the same of the devices while both run.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from drahealth.fakes.health.overlay import Overlay, Pinned
from drahealth.fakes.hints import near
from drahealth.proto.health_apis import V1
from drahealth.proto.values import DeviceHealth, Health, Report


class Teller(Protocol):
    """Tells those who listen to it of devices."""

    def tell_changes(self, changed: Report, *, coalesces: bool) -> None:
        """These devices are something else now. Unless it `coalesces` none of this may be left out."""

    def tell_all(self) -> None:
        """All of them may be something else."""


class HealthTable:
    """The devices of one driver by pool and name. Tellers are told of each change while they are in it."""

    def __init__(self, driver: str, devices: Iterable[DeviceHealth] = ()) -> None:
        self._driver = driver
        self._health = {(device.pool, device.device): device for device in devices}
        self._overlay = Overlay()
        self._unlisted: set[tuple[str, str]] = set()
        self._tellers: list[Teller] = []

    def add(self, teller: Teller) -> None:
        """It tells of all that changes from now on."""
        self._tellers.append(teller)

    def remove(self, teller: Teller) -> None:
        """It tells of nothing any more."""
        self._tellers.remove(teller)

    def get(self, pool: str, device: str) -> DeviceHealth:
        """The device's health. Raises ValueError, naming those that there are, if there is no such device."""
        try:
            return self._health[pool, device]
        except KeyError:
            names = near(f"{pool}/{device}", (f"{p}/{d}" for p, d in self._health))
            raise ValueError(f"driver {self._driver} has no device {pool}/{device}; {names}") from None

    def all(self) -> Report:
        """What is said of each device, in their order."""
        return tuple(self._health.values())

    def listed(self) -> Report:
        """The same without those that are not mentioned any more."""
        if not self._unlisted:
            return self.all()
        return tuple(device for name, device in self._health.items() if name not in self._unlisted)

    def check(self, devices: Iterable[DeviceHealth]) -> None:
        """Raises ValueError for a device that there is not, and for what no message can say."""
        checked = tuple(devices)
        for device in checked:
            self.get(device.pool, device.device)
        V1.encode(checked)

    def set(self, *devices: DeviceHealth, last_words: Iterable[DeviceHealth] = (), coalesces: bool = True) -> None:
        """The devices are so from now on; told at once in one complete report. ValueError for what no message can say.

        Those whose `last_words` these are, are told with them, and not mentioned after that until they are set again.
        Unless it `coalesces` the report goes out even to who listens too slowly to hear of each change.
        """
        last = tuple(last_words)
        changed = {(device.pool, device.device): device for device in (*devices, *last)}
        for pool, device in changed:
            self.get(pool, device)
        V1.encode(changed.values())
        changed = {key: self._overlay.said(device) for key, device in changed.items()}
        self._health.update(changed)
        self._unlisted -= changed.keys()
        # What mentions a device for the last time is not to be left out.
        self._tell(tuple(changed.values()), coalesces=coalesces and not last)
        self._unlisted |= {(device.pool, device.device) for device in last}

    def pin(self, pinned: Mapping[tuple[str, str], Pinned]) -> None:
        """These are said to be so, by pool and device, from now on, and no others: where that is worse than what they
        are. ValueError for a device that there is not, and for what no message can say."""
        for key, so in pinned.items():
            V1.encode([replace(self.get(*key), message=so.message)])
        said = map(self._overlay.said, self._overlay.replaced(pinned, self._health))
        changed = {(d.pool, d.device): d for d in said if d != self._health[d.pool, d.device]}
        self._health.update(changed)
        if told := tuple(device for key, device in changed.items() if key not in self._unlisted):
            self._tell(told, coalesces=True)

    def become(self, devices: Iterable[DeviceHealth]) -> None:
        """These are all devices from now on, and so they are; told at once. ValueError for what no message can say."""
        health = {(device.pool, device.device): device for device in devices}
        V1.encode(health.values())
        self._overlay.keep(health)
        self._health, self._unlisted = {key: self._overlay.said(device) for key, device in health.items()}, set()
        for teller in self._tellers:
            teller.tell_all()

    def _tell(self, changed: Report, *, coalesces: bool) -> None:
        for teller in self._tellers:
            teller.tell_changes(changed, coalesces=coalesces)


def healthy(pool: str, device: str, timeout: int) -> DeviceHealth:
    """How a device begins."""
    return DeviceHealth(pool, device, Health.HEALTHY, timeout=timeout)
