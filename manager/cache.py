"""The health information cache: a report in, the changes out (design document 3.1).

Pure: no clock and no file of its own. `now` is monotonic seconds. Nothing expires by itself: a device that was not
reported within its timeout reads Unknown from then on (`read`), and becomes a change when a later report of its
driver leaves it out (`update`).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from drahealth.manager.profile import Profile
from drahealth.proto.values import DEFAULT_TIMEOUT, DeviceHealth, DeviceId, Health, Report


@dataclass(slots=True)
class Entry:
    """What is known of one device. `updated` is when the manager last heard of it, not the driver's own time (H-02)."""

    health: Health
    message: str
    timeout: float
    updated: float

    def stale(self, now: float) -> bool:
        return now - self.updated > self.timeout


@dataclass(frozen=True, slots=True)
class Reading:
    """A device's health as a status shows it now."""

    health: Health
    message: str = ""


UNKNOWN = Reading(Health.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Update:
    """What a report did: the devices whose health is another now, and whether the checkpoint is out of date."""

    changed: frozenset[DeviceId]
    dirty: bool
    refused: int = 0
    """New devices that were ignored for the profile's limit."""


class HealthCache:
    """All that is known of the health of devices, by driver."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._drivers: dict[str, dict[tuple[str, str], Entry]] = {}

    def read(self, device: DeviceId, now: float) -> Reading:
        """The health now: Unknown for a device that was never reported, is stale, or whose driver was cleared."""
        entry = self._drivers.get(device.driver, {}).get((device.pool, device.device))
        if entry is None or entry.stale(now):
            return UNKNOWN
        return Reading(entry.health, entry.message)

    def update(self, driver: str, report: Report, now: float) -> Update:
        """Takes one report of a driver. Devices it leaves out keep their health until they are stale."""
        known = self._drivers.setdefault(driver, {})
        changed: set[DeviceId] = set()
        refused = 0
        for device in report:
            name = (device.pool, device.device)
            if name not in known and self._full(known):
                refused += 1
                continue
            if self._store(known, name, self._profile.as_read(device), now):
                changed.add(DeviceId(driver, *name))
        stale = [name for name, entry in known.items() if entry.stale(now)]  # what the report named is fresh now
        changed |= {DeviceId(driver, *name) for name in stale if known[name].health is not Health.UNKNOWN}
        self._retire(known, stale, now)
        renewed = self._profile.saves_heartbeats and bool(report)
        return Update(frozenset(changed), dirty=bool(changed or stale or renewed), refused=refused)

    def clear(self, driver: str) -> bool:
        """Forgets a driver, at the end of its stream; False if nothing was known of it."""
        return self._drivers.pop(driver, None) is not None

    def entries(self) -> Iterator[tuple[DeviceId, Entry]]:
        """All devices, for the checkpoint."""
        for driver, devices in self._drivers.items():
            for (pool, device), entry in devices.items():
                yield DeviceId(driver, pool, device), entry

    def restore(self, entries: Iterable[tuple[DeviceId, Entry]]) -> None:
        """Takes back what a checkpoint held."""
        for device, entry in entries:
            self._drivers.setdefault(device.driver, {})[(device.pool, device.device)] = entry

    def _full(self, known: dict[tuple[str, str], Entry]) -> bool:
        limit = self._profile.devices_per_driver
        return limit is not None and len(known) >= limit

    def _store(
        self, known: dict[tuple[str, str], Entry], name: tuple[str, str], device: DeviceHealth, now: float
    ) -> bool:
        timeout = float(device.timeout if device.timeout > 0 else DEFAULT_TIMEOUT)
        old = known.get(name)
        known[name] = new = Entry(device.health, device.message, timeout, now)
        if old is None:
            return True
        if self._profile.recovery_notifies and old.stale(now) and device.health is not Health.UNKNOWN:
            return True
        return (old.health, old.message, old.timeout) != (new.health, new.message, new.timeout)

    def _retire(self, known: dict[tuple[str, str], Entry], stale: list[tuple[str, str]], now: float) -> None:
        """Stale devices that a report left out are Unknown, and told of as such once, or forgotten."""
        for name in stale:
            if self._profile.forgets_stale:
                del known[name]
            else:
                known[name] = Entry(Health.UNKNOWN, "", known[name].timeout, now)
