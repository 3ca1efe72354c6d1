"""The health of a driver's devices, as reported to all its streams.

Both instances of a rolling update share one table, so they report the same health.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from drahealth.fakes.health.overlay import Overlay, Pinned
from drahealth.fakes.hints import near
from drahealth.proto.health_apis import V1
from drahealth.proto.values import DeviceHealth, Health, Report


class Teller(Protocol):
    """A subscriber of a health table."""

    def tell_changes(self, changed: Report, *, coalesces: bool) -> None:
        """These devices have changed. Unless the change `coalesces`, no change may be skipped."""

    def tell_all(self) -> None:
        """Any device may have changed."""


class HealthTable:
    """The devices of one driver by pool and name. Notifies its subscribers of each change."""

    def __init__(self, driver: str, devices: Iterable[DeviceHealth] = ()) -> None:
        self._driver = driver
        self._health = {(device.pool, device.device): device for device in devices}
        self._overlay = Overlay()
        self._unlisted: set[tuple[str, str]] = set()
        self._tellers: list[Teller] = []

    def add(self, teller: Teller) -> None:
        """Adds a subscriber."""
        self._tellers.append(teller)

    def remove(self, teller: Teller) -> None:
        """Removes a subscriber."""
        self._tellers.remove(teller)

    def get(self, pool: str, device: str) -> DeviceHealth:
        """The device's health. Raises ValueError for an unknown device; the message lists the valid names."""
        try:
            return self._health[pool, device]
        except KeyError:
            names = near(f"{pool}/{device}", (f"{p}/{d}" for p, d in self._health))
            raise ValueError(f"driver {self._driver} has no device {pool}/{device}; {names}") from None

    def all(self) -> Report:
        """The reported health of each device, in order."""
        return tuple(self._health.values())

    def listed(self) -> Report:
        """The same without devices that are no longer listed."""
        if not self._unlisted:
            return self.all()
        return tuple(device for name, device in self._health.items() if name not in self._unlisted)

    def check(self, devices: Iterable[DeviceHealth]) -> None:
        """Raises ValueError for unknown devices, and for values that no message can hold."""
        checked = tuple(devices)
        for device in checked:
            self.get(device.pool, device.device)
        V1.encode(checked)

    def set(self, *devices: DeviceHealth, last_words: Iterable[DeviceHealth] = (), coalesces: bool = True) -> None:
        """Sets the health of these devices and reports them immediately, in one complete report. Raises ValueError for
        values that no message can hold.

        Devices in `last_words` are reported a last time, and then omitted until they are set again. Unless it
        `coalesces`, the report is sent to every subscriber, however slow.
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
        """Replaces the overrides of reported health, by pool and device. An override applies where it is worse than the
        device's own health.

        Raises ValueError for an unknown device, and for values that no message can hold.
        """
        for key, so in pinned.items():
            V1.encode([replace(self.get(*key), message=so.message)])
        said = map(self._overlay.said, self._overlay.replaced(pinned, self._health))
        changed = {(d.pool, d.device): d for d in said if d != self._health[d.pool, d.device]}
        self._health.update(changed)
        if told := tuple(device for key, device in changed.items() if key not in self._unlisted):
            self._tell(told, coalesces=True)

    def become(self, devices: Iterable[DeviceHealth]) -> None:
        """Replaces all devices and their health, and reports them immediately. Raises ValueError for values that no
        message can hold.
        """
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
    """The initial health of a device."""
    return DeviceHealth(pool, device, Health.HEALTHY, timeout=timeout)
