"""Until when a report of a device is valid, and whether a stream was watched until then. Pure."""

from dataclasses import dataclass

from drahealth.proto.values import DEFAULT_TIMEOUT, DeviceHealth
from drahealth.suites.checking.observed.streams import OWN_DELAY

WATCHED = 35.0
"""Seconds of a stream in which each report is watched until the next one, or until its timeout is over."""


def timeout_of(reported: DeviceHealth) -> int:
    """The timeout that kubelets apply: 0 and negative numbers are the default."""
    return reported.timeout if reported.timeout > 0 else DEFAULT_TIMEOUT


@dataclass(frozen=True, slots=True)
class LastReport:
    """The last report of a device on a stream."""

    at: float
    reported: DeviceHealth
    repeats: bool = False
    """Whether the report before has the same health and message: the driver also reports what has not changed."""

    def next(self, at: float, reported: DeviceHealth) -> "LastReport":
        """The report that follows."""
        same = (reported.health, reported.message) == (self.reported.health, self.reported.message)
        return LastReport(at, reported, same)

    def can_end(self, watched: float, now: float) -> bool:
        """Whether the watch of the device can end: its timeout is over, or a report after `watched` repeats another.

        A report of a change does not show that the driver reports again without a change: after such reports, the
        device is watched for one timeout more.
        """
        over = min(self.at, watched) + timeout_of(self.reported) + OWN_DELAY
        return now > over or (self.repeats and self.at >= watched)
