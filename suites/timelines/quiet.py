"""When a timeline can skip time: nothing but heartbeats happens, and nothing else is due. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from drahealth.proto.events import CheckpointWritten, Record, ReportReceived, ReportSent, ReportSummary, TimePassed

QUIET = 120.0
"""Seconds without a change. Heartbeats, resyncs and other periodic timers of the reference are shorter."""

LONG = 3600.0
"""Only a longer time is skipped, so ordinary timelines play each second."""

_STEADY = (CheckpointWritten, ReportReceived, ReportSent, ReportSummary, TimePassed)


@dataclass(frozen=True, slots=True)
class Beginning:
    """The beginning of a period that may be quiet."""

    left: float
    """Seconds that the timeline was to wait then."""
    records: int
    """The length of the history then."""
    timers: frozenset[int]
    """The timers that were set then."""

    def is_over(self, left: float) -> bool:
        """Whether the period is long enough. `left` is what the timeline has to wait now."""
        return self.left - left >= QUIET

    def was_quiet(self, records: Sequence[Record], timers: frozenset[int]) -> bool:
        """Whether nothing changed since then, and no timer of that time is still set.

        A timer that is still set belongs to something that comes later, such as a recovery of several days. The others
        are set again and again.
        """
        return not timers & self.timers and all(isinstance(one.what, _STEADY) for one in records[self.records :])
