"""The history of one scenario: all events with their times. Callers can wait for a condition on it."""

import asyncio
import time
from bisect import insort
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from drahealth.manager.profile import Profile
from drahealth.proto.events import DevicesListed, Event, Record, ReportSent
from drahealth.proto.extended_resources import health_of
from drahealth.proto.values import DeviceHealth

E = TypeVar("E", bound=Event)


class History:
    """Records events and wakes waiting tasks. Event sources call `observe`."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._changed = asyncio.Event()

    def observe(self, event: Event) -> None:
        """Record an event that happened now."""
        self.add(Record(time.monotonic(), event))

    def add(self, record: Record) -> None:
        """Record an event of another process, with its time on this machine's monotonic clock.

        It may arrive late. The records stay sorted by time.
        """
        insort(self.records, record, key=lambda other: other.at)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def of(self, kind: type[E]) -> Iterator[E]:
        """The events of this type, in order."""
        return (record.what for record in self.records if isinstance(record.what, kind))

    def as_read(self, profile: Profile) -> list[Record]:
        """The records, with each report as a kubelet of this profile reads it."""
        return [replace(record, what=_as_read(record.what, profile)) for record in self.records]

    async def until(self, true: Callable[[], bool], seconds: float) -> bool:
        """Wait until `true()`; check again after each event. Returns False after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                while not true():
                    await self._changed.wait()
        except TimeoutError:
            return true()
        return True


_FOR_EVER = 10**9  # seconds; devices of a device plugin have no timeout


def _as_read(event: Event, profile: Profile) -> Event:
    if isinstance(event, DevicesListed):
        devices = tuple(DeviceHealth("", d.id, health_of(d.health), timeout=_FOR_EVER) for d in event.devices)
        return ReportSent(event.driver, event.instance, event.stream, devices)
    if not isinstance(event, ReportSent):
        return event
    return replace(event, devices=tuple(profile.as_read(device) for device in event.devices))
