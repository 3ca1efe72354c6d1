"""Overrides of device health. Pure.

The worse health wins: Unhealthy, then Unknown, then Healthy. If both are equal, the device's own health wins.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from drahealth.proto.values import DeviceHealth, Health

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
