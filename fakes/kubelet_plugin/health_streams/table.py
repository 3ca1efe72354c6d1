"""The reported health of a driver's devices.

The instances of a rolling update share one table, so both report the same health while they overlap.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from drahealth.fakes.hints import near
from drahealth.fakes.kubelet_plugin.health_streams.overrides import HealthOverride, HealthOverrides
from drahealth.proto.health_apis import V1
from drahealth.proto.values import DeviceHealth, Health, Report


class HealthReporter(Protocol):
    """Sends the health of devices to clients."""

    def report_changes(self, changed: Report, *, coalesces: bool) -> None:
        """Reports changed devices. A report with `coalesces` may be replaced by a newer one."""

    def report_all(self) -> None:
        """Reports all devices."""


class HealthTable:
    """Devices of one driver by pool and name. Passes each change to its reporters."""

    def __init__(self, driver: str, devices: Iterable[DeviceHealth] = ()) -> None:
        self._driver = driver
        self._health = {(device.pool, device.device): device for device in devices}
        self._overrides = HealthOverrides()
        self._unlisted: set[tuple[str, str]] = set()
        self._reporters: list[HealthReporter] = []

    def add(self, reporter: HealthReporter) -> None:
        """Adds a reporter for all further changes."""
        self._reporters.append(reporter)

    def remove(self, reporter: HealthReporter) -> None:
        """Removes a reporter."""
        self._reporters.remove(reporter)

    def get(self, pool: str, device: str) -> DeviceHealth:
        """The reported health of a device. Raises ValueError, with known names, for an unknown device."""
        try:
            return self._health[pool, device]
        except KeyError:
            names = near(f"{pool}/{device}", (f"{p}/{d}" for p, d in self._health))
            raise ValueError(f"driver {self._driver} has no device {pool}/{device}; {names}") from None

    def all(self) -> Report:
        """The reported health of all devices, in order."""
        return tuple(self._health.values())

    def listed(self) -> Report:
        """The reported health of the devices that reports list."""
        if not self._unlisted:
            return self.all()
        return tuple(device for name, device in self._health.items() if name not in self._unlisted)

    def check(self, devices: Iterable[DeviceHealth]) -> None:
        """Raises ValueError for an unknown device, or a value that no message can encode."""
        checked = tuple(devices)
        for device in checked:
            self.get(device.pool, device.device)
        V1.encode(checked)

    def set(self, *devices: DeviceHealth, final: Iterable[DeviceHealth] = (), coalesces: bool = True) -> None:
        """Sets the health of devices, and sends it in one report. ValueError for a value that no message can encode.

        The devices in `final` are reported once more and then omitted, until they are set again. Without `coalesces`,
        the report is sent even to a client that is slower than the changes.
        """
        last = tuple(final)
        changed = {(device.pool, device.device): device for device in (*devices, *last)}
        for pool, device in changed:
            self.get(pool, device)
        V1.encode(changed.values())
        changed = {key: self._overrides.apply(device) for key, device in changed.items()}
        self._health.update(changed)
        self._unlisted -= changed.keys()
        # The last report of a device must not be replaced by a newer one.
        self._report(tuple(changed.values()), coalesces=coalesces and not last)
        self._unlisted |= {(device.pool, device.device) for device in last}

    def set_overrides(self, overrides: Mapping[tuple[str, str], HealthOverride]) -> None:
        """Replaces all overrides, by pool and device; an override applies while it is worse than the device's health.

        ValueError for an unknown device, or a value that no message can encode.
        """
        for key, override in overrides.items():
            V1.encode([replace(self.get(*key), message=override.message)])
        reported = map(self._overrides.apply, self._overrides.replace_all(overrides, self._health))
        changed = {(d.pool, d.device): d for d in reported if d != self._health[d.pool, d.device]}
        self._health.update(changed)
        if listed := tuple(device for key, device in changed.items() if key not in self._unlisted):
            self._report(listed, coalesces=True)

    def replace_devices(self, devices: Iterable[DeviceHealth]) -> None:
        """Replaces all devices, and reports them. ValueError for a value that no message can encode."""
        health = {(device.pool, device.device): device for device in devices}
        V1.encode(health.values())
        self._overrides.keep(health)
        self._health, self._unlisted = {key: self._overrides.apply(device) for key, device in health.items()}, set()
        for reporter in self._reporters:
            reporter.report_all()

    def _report(self, changed: Report, *, coalesces: bool) -> None:
        for reporter in self._reporters:
            reporter.report_changes(changed, coalesces=coalesces)


def healthy(pool: str, device: str, timeout: int) -> DeviceHealth:
    """A device in its initial state: Healthy."""
    return DeviceHealth(pool, device, Health.HEALTHY, timeout=timeout)
