"""The health information cache: takes reports and returns changes (design document 3.1).

Pure: no clock and no files. `now` is monotonic seconds. No timer expires a device: after its timeout a device reads
Unknown (`read`). It becomes a change when a later report of its driver omits it (`update`).
"""

import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from drahealth.manager.profile import Profile
from drahealth.proto.values import DEFAULT_TIMEOUT, DeviceHealth, DeviceId, Health, Report


@dataclass(slots=True)
class Entry:
    """The known health of one device. `updated` is the time of its last report, not the driver's own time (H-02)."""

    health: Health
    message: str
    timeout: float
    updated: float
    reported_name: "Name | None" = None
    """The driver's name of the device, if the cache uses another key (`Profile.names_joined`)."""

    def stale(self, now: float) -> bool:
        return now - self.updated > self.timeout


@dataclass(frozen=True, slots=True)
class Reading:
    """A device's health as a status shows it now."""

    health: Health
    message: str = ""


UNKNOWN = Reading(Health.UNKNOWN)
_DEFAULT_TIMEOUT = float(DEFAULT_TIMEOUT)

_SECOND = 1_000_000_000

Name = tuple[str, str]
"""The driver's name of a device: pool and name."""


@dataclass(frozen=True, slots=True)
class Update:
    """The result of a report: the devices with changed health, and whether the checkpoint is outdated."""

    changed: frozenset[DeviceId]
    dirty: bool
    refused: int = 0
    """New devices that were ignored because of the profile's limit."""
    renew_by: float = math.inf
    """When the checkpoint needs the times of unchanged devices, if the profile stores them: after half of a device's
    timeout. So if the manager is killed, the checkpoint has at least half of a fresh device's timeout left."""


class HealthCache:
    """The known health of all devices, by driver."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._drivers: dict[str, dict[Name, Entry]] = {}

    def read(self, device: DeviceId, now: float) -> Reading:
        """The current health: Unknown for a device that was never reported, is stale, or whose driver was cleared."""
        entry = self._drivers.get(device.driver, {}).get(self._name(device.pool, device.device))
        if entry is None or entry.stale(now):
            return UNKNOWN
        return Reading(entry.health, entry.message)

    def update(self, driver: str, report: Report, now: float) -> Update:
        """Stores one report of a driver. Omitted devices keep their health until they are stale.

        If a device occurs twice, its last entry counts; the profile decides whether the others can cause a change.
        """
        known = self._drivers.setdefault(driver, {})
        changed: set[DeviceId] = set()
        refused, renew_by = 0, math.inf
        for reported in report if self._profile.named_twice == "each" else _last(report):
            device = self._profile.as_read(reported)
            name = self._name(device.pool, device.device)
            entry = known.get(name)
            if entry is None and self._full(known):
                refused += 1
                continue
            if entry is None:
                entry = Entry(device.health, device.message, self._timeout(device), now)
                known[sys.intern(name[0]), name[1]] = entry
                changed.add(DeviceId(driver, device.pool, device.device))
            else:
                due = entry.updated + entry.timeout / 2
                renew_by = due if due < renew_by else renew_by
                if self._store(entry, device, now):
                    changed.add(DeviceId(driver, device.pool, device.device))
            entry.reported_name = None if name[0] is device.pool else (device.pool, device.device)
        stale = [name for name, entry in known.items() if entry.stale(now)]  # what the report named is fresh now
        gone = [known[name].reported_name or name for name in stale if known[name].health is not Health.UNKNOWN]
        changed |= {DeviceId(driver, *name) for name in gone}
        self._retire(known, stale, now)
        if not self._profile.saves_heartbeats:
            renew_by = math.inf
        return Update(frozenset(changed), dirty=bool(changed or stale), refused=refused, renew_by=renew_by)

    def clear(self, driver: str) -> bool:
        """Removes a driver, at the end of its stream; returns False if it had no devices."""
        return self._drivers.pop(driver, None) is not None

    def entries(self) -> Iterator[tuple[DeviceId, Entry]]:
        """All devices."""
        for driver, devices in self._drivers.items():
            for name, entry in devices.items():
                yield DeviceId(driver, *(entry.reported_name or name)), entry

    def devices(self) -> Mapping[str, Mapping[Name, Entry]]:
        """All devices by driver, without a copy, for the checkpoint."""
        return self._drivers

    def restore(self, entries: Iterable[tuple[DeviceId, Entry]]) -> None:
        """Restores the entries of a checkpoint, without the fields that the profile does not know."""
        for device, entry in entries:
            if not self._profile.messages:
                entry.message = ""
            if not self._profile.timeouts:
                entry.timeout = _DEFAULT_TIMEOUT
            pool, name = self._name(device.pool, device.device)
            if pool is not device.pool:
                entry.reported_name = device.pool, device.device
            self._drivers.setdefault(device.driver, {})[sys.intern(pool), name] = entry

    def _name(self, pool: str, device: str) -> Name:
        """The key of a device. If the profile joins names, the text is split at its last slash."""
        if self._profile.names_joined and "/" in device:
            head, _, tail = f"{pool}/{device}".rpartition("/")
            return head, tail
        return pool, device

    def _timeout(self, device: DeviceHealth) -> float:
        if device.timeout <= 0:
            return _DEFAULT_TIMEOUT
        return _wrapped(device.timeout) if self._profile.timeouts_wrap else float(device.timeout)

    def _full(self, known: Mapping[Name, Entry]) -> bool:
        limit = self._profile.devices_per_driver
        return limit is not None and len(known) >= limit

    def _store(self, entry: Entry, device: DeviceHealth, now: float) -> bool:
        """Updates a known device in place, because most devices of a report are unchanged."""
        timeout = self._timeout(device)
        same = entry.health is device.health and entry.message == device.message and entry.timeout == timeout
        recovered = entry.stale(now) and self._profile.recovery_notifies and device.health is not Health.UNKNOWN
        if not same:
            entry.health, entry.message, entry.timeout = device.health, device.message, timeout
        entry.updated = now
        return not same or recovered

    def _retire(self, known: dict[Name, Entry], stale: list[Name], now: float) -> None:
        """Makes stale devices Unknown that a report omitted, with one notification, or removes them.

        A device that was already Unknown is always removed. It reads the same, and unused names would accumulate.
        """
        for name in stale:
            entry = known[name]
            if self._profile.forgets_stale or entry.health is Health.UNKNOWN:
                del known[name]
            else:
                known[name] = Entry(Health.UNKNOWN, "", entry.timeout, now, entry.reported_name)


def _last(report: Report) -> Iterable[DeviceHealth]:
    """The last entry of each device in a report."""
    return {(device.pool, device.device): device for device in report}.values()


def _wrapped(seconds: int) -> float:
    """Seconds after an overflow of 64-bit nanoseconds. A negative result expires immediately; 0 means the default."""
    nanoseconds = (seconds * _SECOND + 2**63) % 2**64 - 2**63
    return max(nanoseconds, 1) / _SECOND if nanoseconds else _DEFAULT_TIMEOUT
