"""The history of one scenario: all events with their times, and waiting for events."""

import asyncio
import time
from bisect import insort
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import TypeVar

from drahealth.fakes.waiting import Changes
from drahealth.manager.profile import Profile
from drahealth.proto.events import Event, Record, ReportReceived, ReportSent, StatusSeen, StreamClosed, StreamOpened
from drahealth.suites.errors import HarnessError
from drahealth.suites.judging.histories import as_read

# The history of one scenario: all events with their times. Callers can wait for a condition on it.

E = TypeVar("E", bound=Event)


class History:
    """Records events and wakes waiting tasks. Event sources call `observe`."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._changes = Changes()
        self._statuses = 0

    def observe(self, event: Event) -> None:
        """Record an event that happened now."""
        self.add(Record(time.monotonic(), event))

    def add(self, record: Record) -> None:
        """Record an event of another process, with its time on this machine's monotonic clock.

        It may arrive late. The records stay sorted by time.
        """
        insort(self.records, record, key=lambda other: other.at)
        self._statuses += isinstance(record.what, StatusSeen)
        self._changes.notify()

    def of(self, kind: type[E]) -> Iterator[E]:
        """The events of this type, in order; streams as the drivers saw them, not as the kubelet did."""
        events = (record.what for record in self.records if isinstance(record.what, kind))
        return (event for event in events if not (isinstance(event, StreamOpened | StreamClosed) and event.endpoint))

    def as_read(self, profile: Profile) -> list[Record]:
        """The records, with each report as a kubelet of this profile reads it.

        For a driver that records no events, what the kubelet received stands for what it sent.
        """
        return as_read(self.records, profile)

    async def until(self, true: Callable[[], bool], seconds: float, longest: float = 0.0) -> bool:
        """Wait until `true()`; check again after each event. Returns False after `seconds`.

        Each new Pod status begins the wait again, for at most `longest` seconds in all: a slow machine shows many
        changes for longer than one wait.
        """
        loop = asyncio.get_running_loop()
        end, statuses = loop.time() + longest, self._statuses

        def is_true() -> bool:
            nonlocal statuses
            if self._statuses > statuses:
                limit.reschedule(max(limit.when() or 0.0, min(loop.time() + seconds, end)))
            statuses = self._statuses
            return true()

        try:
            async with asyncio.timeout(seconds) as limit:
                await self._changes.until(is_true)
        except TimeoutError:
            return true()
        return True


# Which reports of drivers the kubelet has received. Pure.


def are_received(records: Iterable[Record]) -> bool:
    """Whether the kubelet has received a report of each driver since the driver sent its last one.

    Only the reference records what it receives; a report on a stream that has ended can be lost.
    """
    sent: dict[str, tuple[str, float]] = {}
    received: dict[str, float] = {}
    for record in records:
        match record.what:
            case ReportSent(driver=driver, stream=stream):
                sent[driver] = stream, record.at
            case ReportReceived(driver=driver):
                received[driver] = record.at
            case StreamClosed(driver=driver, stream=stream) if sent.get(driver, ("", 0.0))[0] == stream:
                del sent[driver]
    return all(at >= sent[driver][1] for driver, at in received.items() if driver in sent)


# The time limit of a whole story.

STORY_LIMIT = 240.0
"""Seconds for a whole story. Each wait has its own limit, so only a hanging harness reaches this one."""


@asynccontextmanager
async def time_limit(failure: str, seconds: float = STORY_LIMIT) -> AsyncIterator[None]:
    """Raises HarnessError, with a message that begins with `failure`, if the block exceeds the limit."""
    try:
        async with asyncio.timeout(seconds) as limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise HarnessError(f"{failure} within {seconds:g} s") from None
