"""What is said of devices over what they are, for as long as it is said. Pure.

The worse of both holds: Unhealthy over Unknown over Healthy; of two that are equally bad, what the device is.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from drahealth.proto.values import DeviceHealth, Health

Key = tuple[str, str]
"""A device's pool and name."""

_BADNESS = {Health.HEALTHY: 0, Health.UNKNOWN: 1, Health.UNHEALTHY: 2}


@dataclass(frozen=True, slots=True)
class Pinned:
    """A device is said to be so."""

    health: Health
    message: str

    def __or__(self, other: "Pinned") -> "Pinned":
        """The worse of both, the first of two that are equally bad."""
        return other if _BADNESS[other.health] > _BADNESS[self.health] else self


class Overlay:
    """What is pinned now, and what those devices are beneath it."""

    def __init__(self) -> None:
        self._pinned: Mapping[Key, Pinned] = {}
        self._beneath: dict[Key, DeviceHealth] = {}

    def said(self, device: DeviceHealth) -> DeviceHealth:
        """What is to be said of a device that is so from now on."""
        key = (device.pool, device.device)
        if key not in self._pinned:
            return device
        self._beneath[key] = device
        return self._over(key, device)

    def replaced(self, pinned: Mapping[Key, Pinned], now: Mapping[Key, DeviceHealth]) -> list[DeviceHealth]:
        """These are pinned from now on, and no others; `now` is what was said so far.

        Returns what those are beneath, and those that were pinned before; what is to be said of them `said` knows.
        """
        concerned = dict.fromkeys((*self._beneath, *pinned))
        beneath = {key: self._beneath.get(key, now[key]) for key in concerned}
        self._pinned = dict(pinned)
        self._beneath = {key: beneath[key] for key in pinned}
        return list(beneath.values())

    def keep(self, there: Collection[Key]) -> None:
        """These are all devices that there are; one that comes back is said to be what it is pinned to."""
        self._beneath = {key: device for key, device in self._beneath.items() if key in there}

    def _over(self, key: Key, device: DeviceHealth) -> DeviceHealth:
        so = self._pinned[key]
        if _BADNESS[so.health] <= _BADNESS[device.health]:
            return device
        return replace(device, health=so.health, message=so.message)
