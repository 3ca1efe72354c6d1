"""Checks of times: timestamps in reports, and how often each device is reported."""

from dataclasses import dataclass
from datetime import datetime

from drahealth.proto.health_apis import NODE_HEALTH
from drahealth.proto.values import DEFAULT_TIMEOUT, DeviceHealth
from drahealth.suites.checking.checks.registry import health_check
from drahealth.suites.checking.evidence import Evidence
from drahealth.suites.checking.observed.devices import Device, published
from drahealth.suites.checking.observed.streams import OWN_DELAY, Stream, arrivals
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


@dataclass(frozen=True, slots=True)
class _Gap:
    """The longest time between two reports of a device, or between the last one and the end of the stream."""

    stream: Stream
    device: Device
    seconds: float
    timeout: int
    records: tuple[int, ...]
    refreshed: bool
    """Whether the device was reported again at all."""

    def within(self, share: float) -> bool:
        return self.seconds <= self.timeout * share + OWN_DELAY

    def __str__(self) -> str:
        return f"{self.device} in {self.stream}: {self.seconds:.1f} s without a report, timeout {self.timeout} s"


def timeout_of(reported: DeviceHealth) -> int:
    """The timeout that kubelets apply: 0 and negative numbers are the default."""
    return reported.timeout if reported.timeout > 0 else DEFAULT_TIMEOUT


def _gaps(evidence: Evidence, found: list[Stream]) -> list[_Gap]:
    """The longest gap of each device in each stream, in shares of its timeout."""
    slices, gaps = published(evidence), []
    for stream in found:
        end = stream.opened.at + stream.open_seconds
        for device, times in arrivals(stream).items():
            if slices.states and device not in slices.always:
                continue  # it came, went, or is not published
            stops = [*((at, number) for at, number, _ in times[1:]), (end, stream.end.number if stream.end else 0)]
            each = [
                _Gap(stream, device, stop - at, timeout_of(one), tuple(filter(None, (number, last))), len(times) > 1)
                for (at, number, one), (stop, last) in zip(times, stops, strict=True)
            ]
            gaps.append(max(each, key=lambda gap: gap.seconds / gap.timeout))
    return gaps


def _refreshed(evidence: Evidence, found: list[Stream], share: float, expected: str) -> Finding:
    gaps = _gaps(evidence, [one for one in found if one.end])
    if not gaps:
        return not_tested("no watched stream reported a published device")
    worst = max(gaps, key=lambda gap: gap.seconds / gap.timeout)
    if not worst.within(share):
        return failed(expected, str(worst), *worst.records)
    if once := next((gap for gap in gaps if not gap.refreshed), None):
        return static(f"no second report was due: {once}", *once.records)
    return passed(f"longest time without a report: {worst}", *worst.records)


@health_check(
    "HEALTH-06",
    "watch",
    fix="Report each device again before its timeout ends, even if nothing changed. A timeout of 0 means 30 s.",
    reads=("slices",),
)
def devices_are_refreshed_within_their_timeout(evidence: Evidence, found: list[Stream]) -> Finding:
    """By arrival times, no device is unreported for longer than its timeout until the end of the watch."""
    return _refreshed(evidence, found, 1, "each device again within its timeout")


@health_check(
    "HEALTH-07",
    "watch",
    fix="Report each device at least twice within its timeout, so that the device does not become stale if a report is "
    "late. A timeout of 0 means 30 s.",
    reads=("slices",),
)
def devices_are_refreshed_within_half_their_timeout(evidence: Evidence, found: list[Stream]) -> Finding:
    """The same within half of the timeout."""
    return _refreshed(evidence, found, 0.5, "each device again within half of its timeout")
