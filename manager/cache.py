"""The health information cache: a report in, the changes out (design document 3.1).

Pure: no clock and no file of its own. `now` is monotonic seconds. Nothing expires by itself: a device that was not
reported within its timeout reads Unknown from then on (`read`), and becomes a change when a later report of its
driver leaves it out (`update`).
"""

import math
import sys
from collections.abc import Iterable, Iterator, Mapping
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
    told: "Name | None" = None
    """What its driver calls it, where it is known by another name (`Profile.names_joined`)."""

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
"""What a driver calls a device: pool and name."""


@dataclass(frozen=True, slots=True)
class Update:
    """What a report did: the devices whose health is another now, and whether the checkpoint is out of date."""

    changed: frozenset[DeviceId]
    dirty: bool
    refused: int = 0
    """New devices that were ignored for the profile's limit."""
    renew_by: float = math.inf
    """When the checkpoint has to have the times of what the report did not change, if the profile saves them: when half
    of a device's timeout has passed since it was heard of before. So a device that is fresh when the manager is killed
    has that half left in the checkpoint, or as much as it really had."""


class HealthCache:
    """All that is known of the health of devices, by driver."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._drivers: dict[str, dict[Name, Entry]] = {}

    def read(self, device: DeviceId, now: float) -> Reading:
        """The health now: Unknown for a device that was never reported, is stale, or whose driver was cleared."""
        entry = self._drivers.get(device.driver, {}).get(self._name(device.pool, device.device))
        if entry is None or entry.stale(now):
            return UNKNOWN
        return Reading(entry.health, entry.message)

    def update(self, driver: str, report: Report, now: float) -> Update:
        """Takes one report of a driver. Devices it leaves out keep their health until they are stale.

        Of a device that it names twice the last word counts, and alone where the profile has it.
        """
        known = self._drivers.setdefault(driver, {})
        changed: set[DeviceId] = set()
        refused, renew_by = 0, math.inf
        for told in report if self._profile.named_twice == "each" else _last(report):
            device = self._profile.as_read(told)
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
            entry.told = None if name[0] is device.pool else (device.pool, device.device)
        stale = [name for name, entry in known.items() if entry.stale(now)]  # what the report named is fresh now
        gone = [known[name].told or name for name in stale if known[name].health is not Health.UNKNOWN]
        changed |= {DeviceId(driver, *name) for name in gone}
        self._retire(known, stale, now)
        if not self._profile.saves_heartbeats:
            renew_by = math.inf
        return Update(frozenset(changed), dirty=bool(changed or stale), refused=refused, renew_by=renew_by)

    def clear(self, driver: str) -> bool:
        """Forgets a driver, at the end of its stream; False if nothing was known of it."""
        return self._drivers.pop(driver, None) is not None

    def entries(self) -> Iterator[tuple[DeviceId, Entry]]:
        """All devices."""
        for driver, devices in self._drivers.items():
            for name, entry in devices.items():
                yield DeviceId(driver, *(entry.told or name)), entry

    def devices(self) -> Mapping[str, Mapping[Name, Entry]]:
        """The same by driver, without a copy, for the checkpoint."""
        return self._drivers

    def restore(self, entries: Iterable[tuple[DeviceId, Entry]]) -> None:
        """Takes back what a checkpoint held."""
        for device, entry in entries:
            pool, name = self._name(device.pool, device.device)
            if pool is not device.pool:
                entry.told = device.pool, device.device
            self._drivers.setdefault(device.driver, {})[sys.intern(pool), name] = entry

    def _name(self, pool: str, device: str) -> Name:
        """What the device is known by: where names are joined, the text is cut at its last slash, wherever it was."""
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
        """Takes what was said of a known device, in place: a report is mostly of devices that are as they were."""
        timeout = self._timeout(device)
        same = entry.health is device.health and entry.message == device.message and entry.timeout == timeout
        recovered = entry.stale(now) and self._profile.recovery_notifies and device.health is not Health.UNKNOWN
        if not same:
            entry.health, entry.message, entry.timeout = device.health, device.message, timeout
        entry.updated = now
        return not same or recovered

    def _retire(self, known: dict[Name, Entry], stale: list[Name], now: float) -> None:
        """Stale devices that a report left out are Unknown, and told of as such once, or forgotten.

        What was Unknown already is forgotten in any case: it reads the same, and names that a driver uses no more would
        pile up.
        """
        for name in stale:
            entry = known[name]
            if self._profile.forgets_stale or entry.health is Health.UNKNOWN:
                del known[name]
            else:
                known[name] = Entry(Health.UNKNOWN, "", entry.timeout, now, entry.told)


def _last(report: Report) -> Iterable[DeviceHealth]:
    """What a report says last of each device."""
    return {(device.pool, device.device): device for device in report}.values()


def _wrapped(seconds: int) -> float:
    """What becomes of seconds in nanoseconds of 64 bits: one below zero is over at once, and none is the default."""
    nanoseconds = (seconds * _SECOND + 2**63) % 2**64 - 2**63
    return max(nanoseconds, 1) / _SECOND if nanoseconds else _DEFAULT_TIMEOUT
