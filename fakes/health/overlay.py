"""Overrides of reported health. Pure.

The worse health counts: Unhealthy before Unknown before Healthy; if both are equal, the device's own.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from drahealth.proto.values import DeviceHealth, Health

Key = tuple[str, str]
"""A device's pool and name."""

_BADNESS = {Health.HEALTHY: 0, Health.UNKNOWN: 1, Health.UNHEALTHY: 2}


@dataclass(frozen=True, slots=True)
class Pinned:
    """An override of one device."""

    health: Health
    message: str

    def __or__(self, other: "Pinned") -> "Pinned":
        """The worse of both; the first if both are equal."""
        return other if _BADNESS[other.health] > _BADNESS[self.health] else self


class Overlay:
    """The current overrides, and the devices' own health."""

    def __init__(self) -> None:
        self._pinned: Mapping[Key, Pinned] = {}
        self._beneath: dict[Key, DeviceHealth] = {}

    def said(self, device: DeviceHealth) -> DeviceHealth:
        """The health to report for a device with this own health."""
        key = (device.pool, device.device)
        if key not in self._pinned:
            return device
        self._beneath[key] = device
        return self._over(key, device)

    def replaced(self, pinned: Mapping[Key, Pinned], now: Mapping[Key, DeviceHealth]) -> list[DeviceHealth]:
        """Replaces all overrides; `now` is the reported health so far.

        Returns the own health of these devices, and the devices with earlier overrides. `said` gives the health to
        report.
        """
        concerned = dict.fromkeys((*self._beneath, *pinned))
        beneath = {key: self._beneath.get(key, now[key]) for key in concerned}
        self._pinned = dict(pinned)
        self._beneath = {key: beneath[key] for key in pinned}
        return list(beneath.values())

    def keep(self, there: Collection[Key]) -> None:
        """Sets the existing devices. A device that returns keeps its override."""
        self._beneath = {key: device for key, device in self._beneath.items() if key in there}

    def _over(self, key: Key, device: DeviceHealth) -> DeviceHealth:
        so = self._pinned[key]
        if _BADNESS[so.health] <= _BADNESS[device.health]:
            return device
        return replace(device, health=so.health, message=so.message)
