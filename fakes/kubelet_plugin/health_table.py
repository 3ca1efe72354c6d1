"""The reported health of a driver's devices, and its overrides. Pure."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from drahealth.fakes.hints import near
from drahealth.proto.health_apis import V1
from drahealth.proto.values import DeviceHealth, Health, Report

# Overrides of device health. Pure.
#
# The worse health wins: Unhealthy, then Unknown, then Healthy. If both are equal, the device's own health wins.

Key = tuple[str, str]
"""A device's pool and name."""

_SEVERITY = {Health.HEALTHY: 0, Health.UNKNOWN: 1, Health.UNHEALTHY: 2}


@dataclass(frozen=True, slots=True)
class HealthOverride:
    """The health and message that a device reports in place of its own."""

    health: Health
    message: str

    def __or__(self, other: "HealthOverride") -> "HealthOverride":
        """The worse of both; the first if both are equal."""
        return other if _SEVERITY[other.health] > _SEVERITY[self.health] else self


class HealthOverrides:
    """The current overrides, and the own health of the overridden devices."""

    def __init__(self) -> None:
        self._overrides: Mapping[Key, HealthOverride] = {}
        self._own: dict[Key, DeviceHealth] = {}

    def apply(self, device: DeviceHealth) -> DeviceHealth:
        """Records a device's own health; returns the health to report."""
        key = (device.pool, device.device)
        if key not in self._overrides:
            return device
        self._own[key] = device
        return self._overridden(key, device)

    def replace_all(
        self, overrides: Mapping[Key, HealthOverride], now: Mapping[Key, DeviceHealth]
    ) -> list[DeviceHealth]:
        """Replaces all overrides; `now` is the reported health so far.

        Returns the own health of all devices with a new or an old override. Pass each to `apply`.
        """
        concerned = dict.fromkeys((*self._own, *overrides))
        own = {key: self._own.get(key, now[key]) for key in concerned}
        self._overrides = dict(overrides)
        self._own = {key: own[key] for key in overrides}
        return list(own.values())

    def keep(self, existing: Collection[Key]) -> None:
        """Forgets the own health of other devices. An override stays, and applies if its device returns."""
        self._own = {key: device for key, device in self._own.items() if key in existing}

    def _overridden(self, key: Key, device: DeviceHealth) -> DeviceHealth:
        override = self._overrides[key]
        if _SEVERITY[override.health] <= _SEVERITY[device.health]:
            return device
        return replace(device, health=override.health, message=override.message)


# The reported health of a driver's devices.
#
# The instances of a rolling update share one table, so both report the same health while they overlap.


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

    def listed_among(self, devices: Iterable[Key]) -> Report:
        """The same for some devices, by pool and name."""
        return tuple(self._health[key] for key in devices if key not in self._unlisted)

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
