"""Checks of times in reports, and of drivers that are interrupted."""

import itertools
from collections.abc import Iterator, Set
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from drahealth.proto.events import FaultCleared, FaultInjected, SignalSent, SliceChanged, SlicesListed, StreamOpened
from drahealth.proto.health_apis import NODE_HEALTH
from drahealth.proto.values import DeviceHealth, Health
from drahealth.suites.driver_checks.check import check, everywhere, health_check
from drahealth.suites.driver_checks.evidence import Evidence, Observation
from drahealth.suites.driver_checks.observed import (
    SLICES_LIMIT,
    Device,
    cause_of_end,
    devices_of,
    experiments_of,
    is_done,
    named,
    notified,
    outcome,
    process_of,
    published,
)
from drahealth.suites.driver_checks.observed_health import (
    OWN_DELAY,
    WATCHED,
    Stream,
    Times,
    acted_on,
    arrivals,
    began,
    fault_steps,
    listed,
    timeout_of,
)
from drahealth.suites.driver_checks.verdicts import Finding, Verdict, failed, not_tested, passed, static

# Checks of times: timestamps in reports, and how often each device is reported.

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
    for stream in everywhere(evidence, found, "HEALTH-05"):
        for device, times in arrivals(stream).items():
            before = 0
            for at, number, one in times:
                if one.updated == 0 and stream.api is not NODE_HEALTH:
                    continue  # the time is unknown
                if wrong := _wrong_time(one.updated, before, started + at):
                    return failed(wrong[0], f"{device} in {stream}: {wrong[1]}", number)
                before = one.updated
                records += [number] if stream in found else []
    if old := _before_the_fault(evidence, found, started):
        return old
    if records:
        return passed("the timestamps are plausible", *sorted(set(records)))
    reports = [one.reports[0].number for one in found if arrivals(one)]
    return static("no report has a time", *reports) if reports else not_tested("no report listed a device")


def _before_the_fault(evidence: Evidence, found: list[Stream], started: float) -> Finding | None:
    """A failure if a report shows the effect of an action on a device, with a time before the action."""
    steps = fault_steps(evidence)
    for stream in everywhere(evidence, found, "HEALTH-05"):
        times_of = arrivals(stream)
        for step in steps:
            device = acted_on(step)
            if step.experiment != stream.experiment or step.what.outcome != "done" or device not in times_of:
                continue
            before = [one for one in times_of[device] if one[0] < began(step)][-1:]
            after = [one for one in times_of[device] if one[0] >= began(step)]
            changed = [one for one in after if before and _state(one[2]) != _state(before[0][2])][:1]
            for _, number, one in changed:
                if 0 < one.updated < started + began(step) - _SKEW:
                    age = started + began(step) - one.updated
                    seen = f"{device} in {stream}: {one.health} with a time {age:.0f} s before `{step.what.action}`"
                    return failed("the time at which the driver determined this health", seen, step.number, number)
    return None


def _state(one: DeviceHealth) -> tuple[Health, str]:
    return one.health, one.message


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
        slices = published(evidence, *experiments_of(process_of(stream.experiment)))
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

    The streams of experiments that follow the last reports count, too. In all other streams a gap that is too long
    counts, unless the driver was stopped. A report to follow whose timeout is not over at the end of its stream shows
    nothing.
    """
    all_ = everywhere(evidence, found, "HEALTH-06")
    followed = [one for one in all_ if one in found or one.experiment in ("subscribers", *FOLLOWED)]
    gaps = _gaps(evidence, followed)
    stopped = {one.experiment for one in evidence.of(SignalSent) if one.what.signal == "SIGSTOP"}
    others = [one for one in all_ if one not in followed and one.experiment not in stopped]
    worst = max(gaps, key=_share, default=None)
    if worst is None or worst.within(share):
        late = [gap for gap in _gaps(evidence, others) if not gap.within(share)]
        worst = max(late, key=_share, default=worst)
    if worst is None:
        return not_tested("no watched stream reported a published device")
    if not worst.within(share):
        return failed(expected, str(worst), *worst.records)
    if unseen := next((gap for gap in gaps if gap.is_open and not _is_short(gap.stream)), None):
        return not_tested(_unseen(unseen), *unseen.records)
    return passed(f"longest time without a report: {worst}", *worst.records)


def _share(gap: _Gap) -> float:
    return gap.seconds / gap.timeout


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


# Checks of drivers that are interrupted: stopped, without a subscriber, and without their kubelet.

_IDLE = 30.0
"""Seconds without a subscriber that count as idle: the default timeout."""


@health_check(
    "HEALTH-18",
    "stop-and-continue",
    fix="Use timers that continue after a pause of the process, and keep the streams open.",
)
def reports_continue_after_a_stop(evidence: Evidence, found: list[Stream]) -> Finding:
    """After SIGCONT each stream reports each device twice, each time within the timeout of the device."""
    continued = next(
        (one for one in evidence.of(SignalSent, "stop-and-continue") if one.what.signal == "SIGCONT"), None
    )
    if continued is None:
        return not_tested("the driver was not stopped and continued")
    records, slowest, unproven = [continued.number], 0.0, None
    for stream in found:
        end = stream.opened.at + stream.open_seconds
        if stream.opened.at > continued.at or end < continued.at or not stream.reports:
            continue
        if stream.end and _ended_by_driver(evidence, stream):
            return failed("the stream continues", f"{stream} ended: {stream.end.what.why}", *records, stream.end.number)
        for device, times in arrivals(stream).items():
            result = _again(f"{device} in {stream}", times, continued, end)
            if isinstance(result, Finding):
                if result.verdict is Verdict.FAIL:
                    return result
                unproven = unproven or result
                continue
            slowest = max(slowest, result)
        records.append(stream.reports[-1].number)
    if unproven:
        return unproven
    if len(records) == 1:
        return not_tested("no stream was open at SIGCONT", *records)
    return passed(f"all streams reported each device twice, each time within {slowest:.1f} s", *records)


def _ended_by_driver(evidence: Evidence, stream: Stream) -> bool:
    """Whether the driver ended a stream without a signal and without an exit."""
    return bool(stream.end and stream.ended_by_driver and not cause_of_end(evidence, stream.opened, stream.end))


def _again(name: str, times: Times, continued: Observation[SignalSent], end: float) -> Finding | float:
    """The longest time of a device without a report after SIGCONT, until its second report; or why it is wrong."""
    known = [one for one in times if one[0] <= continued.at]
    if not known:
        return 0.0
    later = times[len(known) :][:2]
    moments = [continued.at, *(at for at, _, _ in later), end][:3]
    for (start, stop), (_, number, one) in zip(itertools.pairwise(moments), [known[-1], *later], strict=False):
        limit = timeout_of(one) + OWN_DELAY
        if stop - start > limit:
            seen = f"{name}: {stop - start:.1f} s without a report, {start - continued.at:.1f} s after SIGCONT"
            return failed(f"a report within {limit:g} s", seen, continued.number, number)
    if len(later) < 2:
        seen = f"{name}: the stream ended {end - moments[-2]:.1f} s after the last report"
        return not_tested(seen, continued.number)
    return max(stop - start for start, stop in itertools.pairwise(moments))


@health_check(
    "HEALTH-19",
    "idle",
    fix="Keep the health of all devices even while there is no subscriber. Start each stream with all devices.",
)
def stream_after_a_pause_starts_with_all_devices(evidence: Evidence, found: list[Stream]) -> Finding:
    """A stream that opens after 30 s without a subscriber has a first report with all devices within 5 s."""
    records, pauses, unproven = [], [], None
    found = [one for one in found if not one.api.prepared_only]
    for stream in found:
        before = [one for one in found if one.end and one.end.at <= stream.opened.at]
        pause = stream.opened.at - max((one.end.at for one in before if one.end), default=stream.opened.at)
        if pause < _IDLE:
            continue
        expected = frozenset(device for one in before for report in one.reports for device in listed(report))
        if not stream.reports:
            if stream.first_is_late or _ended_by_driver(evidence, stream):
                return failed("a first report within 5 s", f"{stream}: no report", stream.opened.number)
            short = f"{stream} was open for only {stream.open_seconds:.1f} s"
            unproven = unproven or not_tested(short, stream.opened.number)
            continue
        first = stream.reports[0]
        took, missing = first.at - stream.opened.at, expected - listed(first)
        if missing or stream.first_is_late:
            seen = f"without {named(missing)}" if missing else f"after {took:.1f} s"
            return failed(f"a first report within 5 s with {named(expected)}", f"{stream}: {seen}", first.number)
        records.append(first.number)
        pauses.append(pause)
    if unproven:
        return unproven
    if pauses:
        return passed(f"after {max(pauses):.0f} s without a subscriber, new streams start with all devices", *records)
    return not_tested("no stream was opened after 30 s without a subscriber")


@check(
    "PLUGIN-26",
    "kubelet-restart",
    fix="Watch the ResourceSlices of the driver on its node, and publish all deleted ResourceSlices again. "
    "With the Go package kubeletplugin, use v0.37 or newer (see PLUGIN-15).",
)
def slices_return_after_a_kubelet_restart(evidence: Evidence) -> Finding:
    """After a restart of the kubelet, which deletes all slices, the driver registers and publishes them within 90 s."""
    name = "kubelet-restart"
    deleted = [
        one for one in evidence.of(SliceChanged, name) if one.what.by == "check" and one.what.change == "DELETED"
    ]
    if not deleted:
        return not_tested("no ResourceSlice was deleted")
    last = deleted[-1]
    again = next((one for one in notified(evidence, name) if one.number > last.number), None)
    if again and again.what.code != "OK":
        return failed("the driver can be registered again", outcome(again.what), last.number, again.number)
    wanted = {device for one in deleted for device in devices_of(one.what.slice)}
    written = [
        (one.at, devices_of(one.what.slice))
        for one in evidence.of(SliceChanged, name)
        if one.number > deleted[0].number and one.what.by == "driver" and one.what.change != "DELETED"
    ]
    lists = [one for one in evidence.of(SlicesListed, name) if one.number > last.number]
    found = {device for _, devices in written for device in devices}
    found |= {device for one in lists for each in one.what.slices for device in devices_of(each)}
    if missing := wanted - found:
        if again is None or not is_done(evidence, name):
            return not_tested("the run ended too early to see the ResourceSlices again", last.number)
        waited = max((one.at for one in lists), default=last.at) - last.at
        seen = f"{named(missing)} did not return in {waited:.0f} s"
        return failed(f"{named(wanted)} are published again", seen, last.number, again.number)
    times = [min((at for at, devices in written if one in devices), default=last.at) for one in wanted]
    took = max(times, default=last.at) - last.at
    if took > SLICES_LIMIT + OWN_DELAY:
        expected = f"{named(wanted)} are published again within {SLICES_LIMIT:g} s"
        return failed(expected, f"the last of them after {took:.0f} s", last.number)
    return passed(f"all devices were published again after {max(took, 0):.0f} s", last.number)
