"""Checks of times: timestamps in reports, and how often each device is reported."""

from collections.abc import Iterator, Set
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from drahealth.proto.events import FaultCleared, FaultInjected, StreamOpened
from drahealth.proto.health_apis import NODE_HEALTH
from drahealth.suites.checking.checks.registry import health_check
from drahealth.suites.checking.evidence import Evidence
from drahealth.suites.checking.observed.agreement import Times
from drahealth.suites.checking.observed.devices import Device, published
from drahealth.suites.checking.observed.streams import OWN_DELAY, Stream, arrivals, streams
from drahealth.suites.checking.observed.timeouts import WATCHED, timeout_of
from drahealth.suites.checking.verdicts import Finding, failed, not_tested, passed, static

_SKEW = 5
"""Seconds by which the clock of the driver may be ahead."""
_EARLIEST = 1_577_836_800
"""Unix time of the year 2020. Smaller times have another start, such as that of the machine: DRA came later."""
_MILLISECONDS = 100_000_000_000
"""Unix times above it are no seconds: as milliseconds, it is in 1973; as seconds, in the year 5138."""


@health_check(
    "HEALTH-05",
    "watch",
    fix="Set the time to the Unix time in seconds at which the driver last determined the health of the device.",
)
def timestamps_are_plausible(evidence: Evidence, found: list[Stream]) -> Finding:
    """Timestamps are seconds since 1970, at most now, and never decrease."""
    try:
        started = datetime.fromisoformat(evidence.header.started).timestamp()
    except (ValueError, OverflowError):
        return not_tested("the header of the evidence has no valid start time")
    records = []
    for stream in found:
        for device, times in arrivals(stream).items():
            before = 0
            for at, number, one in times:
                if one.updated == 0 and stream.api is not NODE_HEALTH:
                    continue  # the time is unknown
                if wrong := _wrong_time(one.updated, before, started + at):
                    return failed(wrong[0], f"{device} in {stream}: {wrong[1]}", number)
                before = one.updated
                records.append(number)
    if records:
        return passed("the timestamps are plausible", *sorted(set(records)))
    reports = [one.reports[0].number for one in found if arrivals(one)]
    return static("no report has a time", *reports) if reports else not_tested("no report listed a device")


def _wrong_time(updated: int, before: int, now: float) -> tuple[str, str] | None:
    if updated <= 0:
        return "a Unix time", f"{updated}"
    if updated > _MILLISECONDS:
        return "a Unix time in seconds", f"{updated}, which is in milliseconds or smaller units"
    if updated < _EARLIEST:
        return "a Unix time in seconds since 1970", f"{updated}, which is before 2020"
    if updated > now + _SKEW:
        return f"at most the current time, {now:.0f}", f"{updated}, {updated - now:.0f} s in the future"
    if updated < before:
        return f"at least {before}, as reported before", f"{updated}"
    return None


FOLLOWED = ("slice-deletion", "faults", "fault-during-kubelet-restart", "idle")
"""The experiments that, at their end, follow the last report of each device to the next one, or to its timeout."""


@dataclass(frozen=True, slots=True)
class _Gap:
    """The time from a report of a device to its next report, or to the end of the stream."""

    stream: Stream
    device: Device
    at: float
    seconds: float
    timeout: int
    records: tuple[int, ...]
    is_open: bool
    """Whether the stream ended before the next report, although the report is one of those to follow."""

    def within(self, share: float) -> bool:
        return self.seconds <= self.timeout * share + OWN_DELAY

    def __str__(self) -> str:
        return f"{self.device} in {self.stream}: {self.seconds:.1f} s without a report, timeout {self.timeout} s"


def _gaps(evidence: Evidence, found: list[Stream]) -> list[_Gap]:
    """The times between the reports of each device in each stream that has ended."""
    gaps = []
    for stream in found:
        if stream.end is None:
            continue
        slices = published(evidence, *((stream.experiment,) if stream.experiment in FOLLOWED else ()))
        unfollowed, times_of = _unfollowed(evidence, stream), arrivals(stream)
        for device, times in times_of.items():
            if slices.ever and device not in slices.always:
                continue  # it came, went, or is not published
            stops = [*((at, number) for at, number, _ in times[1:]), (stream.end.at, stream.end.number)]
            for (at, number, one), (stop, next_) in zip(times, stops, strict=True):
                is_open = next_ == stream.end.number and device in unfollowed
                gaps.append(_Gap(stream, device, at, stop - at, timeout_of(one), (number, next_), is_open))
    return gaps


def _unfollowed(evidence: Evidence, stream: Stream) -> Set[Device]:
    """The devices whose last report is one of those to follow: no later report shows that the driver still reports.

    In `watch`: the reports of the first 35 s. In an experiment that follows the last reports: those until its last
    step. A report of a change does not follow them: the driver must also report what has not changed. Streams that
    such an experiment closes before its last step do not count.
    """
    times_of = arrivals(stream)
    if stream.experiment not in FOLLOWED:
        return {device for device, times in times_of.items() if times[-1][0] < stream.opened.at + WATCHED}
    kinds = (StreamOpened, FaultInjected, FaultCleared)
    last = max((one for kind in kinds for one in evidence.of(kind, stream.experiment)), key=lambda one: one.number)
    if stream.end is None or stream.end.number < last.number or not stream.reports:
        return set()
    since = max(last.at, stream.reports[0].at)
    watched = stream.end.at - since
    return {
        device
        for device, times in times_of.items()
        if watched <= timeout_of(times[-1][2]) and not any(at > since for at in _repeated(times))
    }


def _repeated(times: Times) -> Iterator[float]:
    """When a device was reported again without a change."""
    for (_, _, before), (at, _, one) in pairwise(times):
        if (before.health, before.message) == (one.health, one.message):
            yield at


def _refreshed(evidence: Evidence, found: list[Stream], share: float, expected: str) -> Finding:
    """The finding on the watched streams, and on the other subscribers: the longest gap counts.

    The streams of experiments that follow the last reports count, too. A report to follow whose timeout is not over at
    the end of its stream shows nothing.
    """
    gaps = _gaps(evidence, [*found, *streams(evidence, "subscribers", *FOLLOWED)])
    worst = max(gaps, key=lambda gap: gap.seconds / gap.timeout, default=None)
    if worst is None:
        return not_tested("no watched stream reported a published device")
    if not worst.within(share):
        return failed(expected, str(worst), *worst.records)
    if unseen := next((gap for gap in gaps if gap.is_open and not _is_short(gap.stream)), None):
        return not_tested(_unseen(unseen), *unseen.records)
    return passed(f"longest time without a report: {worst}", *worst.records)


def _is_short(stream: Stream) -> bool:
    """Whether drahealth opened the stream for its first report only, and cancelled it."""
    return stream.cancelled and stream.open_seconds < WATCHED and stream.experiment == "subscribers"


def _unseen(gap: _Gap) -> str:
    """Why a gap shows nothing."""
    if not gap.stream.cancelled:
        return f"{gap.stream} ended {gap.seconds:.1f} s after the last report of {gap.device}, before its timeout"
    seen = f"{gap.stream} was watched for {gap.seconds:.0f} s after the last report of {gap.device}"
    return f"{seen}; its timeout is {gap.timeout} s, and a larger --deadline makes the watch longer"


@health_check(
    "HEALTH-06",
    "watch",
    fix="Report each device again before its timeout ends, even if nothing changed. A timeout of 0 means 30 s.",
    reads=("slices", "subscribers", *FOLLOWED),
)
def devices_are_refreshed_within_their_timeout(evidence: Evidence, found: list[Stream]) -> Finding:
    """By arrival times, no device is unreported for longer than its timeout; each timeout is watched to its end."""
    return _refreshed(evidence, found, 1, "each device again within its timeout")


@health_check(
    "HEALTH-07",
    "watch",
    fix="Report each device at least twice within its timeout, so that the device does not become stale if a report is "
    "late. A timeout of 0 means 30 s.",
    reads=("slices", "subscribers", *FOLLOWED),
)
def devices_are_refreshed_within_half_their_timeout(evidence: Evidence, found: list[Stream]) -> Finding:
    """The same within half of the timeout."""
    return _refreshed(evidence, found, 0.5, "each device again within half of its timeout")
