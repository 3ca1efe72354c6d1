"""Checks of drivers that are interrupted: stopped, without a subscriber, and without their kubelet."""

import itertools

from drahealth.proto.events import SignalSent, SliceChanged, SlicesListed
from drahealth.suites.checking.checks.registry import check, health_check
from drahealth.suites.checking.evidence import Evidence, Observation
from drahealth.suites.checking.observed.agreement import Times
from drahealth.suites.checking.observed.devices import SLICES_LIMIT, devices_of, named
from drahealth.suites.checking.observed.processes import cause_of_end, is_done
from drahealth.suites.checking.observed.registrations import notified, outcome
from drahealth.suites.checking.observed.streams import OWN_DELAY, Stream, arrivals, listed
from drahealth.suites.checking.observed.timeouts import timeout_of
from drahealth.suites.checking.verdicts import Finding, failed, not_tested, passed

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
    records, slowest = [continued.number], 0.0
    for stream in found:
        end = stream.opened.at + stream.open_seconds
        if stream.opened.at > continued.at or end < continued.at or not stream.reports:
            continue
        if stream.end and _ended_by_driver(evidence, stream):
            return failed("the stream continues", f"{stream} ended: {stream.end.what.why}", *records, stream.end.number)
        for device, times in arrivals(stream).items():
            result = _again(f"{device} in {stream}", times, continued, end)
            if isinstance(result, Finding):
                return result
            slowest = max(slowest, result)
        records.append(stream.reports[-1].number)
    if len(records) == 1:
        return not_tested("no stream was open at SIGCONT", *records)
    return passed(f"all streams reported each device twice, each time within {slowest:.1f} s", *records)


def _ended_by_driver(evidence: Evidence, stream: Stream) -> bool:
    """Whether the driver ended a stream without a signal and without an exit."""
    ended = stream.end is not None and stream.ended_by_driver
    return ended and stream.end is not None and not cause_of_end(evidence, stream.opened, stream.end)


def _again(name: str, times: Times, continued: Observation[SignalSent], end: float) -> Finding | float:
    """The longest time of a device without a report after SIGCONT, until its second report; or why it is wrong."""
    known = [one for one in times if one[0] <= continued.at]
    if not known:
        return 0.0
    later = times[len(known) :][:2]
    moments = [continued.at, *(at for at, _, _ in later), end][:3]
    for (began, stop), (_, number, one) in zip(itertools.pairwise(moments), [known[-1], *later], strict=False):
        limit = timeout_of(one) + OWN_DELAY
        if stop - began > limit:
            seen = f"{name}: {stop - began:.1f} s without a report, {began - continued.at:.1f} s after SIGCONT"
            return failed(f"a report within {limit:g} s", seen, continued.number, number)
    if len(later) < 2:
        seen = f"{name}: the stream ended {end - moments[-2]:.1f} s after the last report"
        return not_tested(seen, continued.number)
    return max(stop - began for began, stop in itertools.pairwise(moments))


@health_check(
    "HEALTH-19",
    "idle",
    fix="Keep the health of all devices even while there is no subscriber. Start each stream with all devices.",
)
def stream_after_a_pause_starts_with_all_devices(evidence: Evidence, found: list[Stream]) -> Finding:
    """A stream that opens after 30 s without a subscriber has a first report with all devices within 5 s."""
    records, pauses = [], []
    for stream in found:
        before = [one for one in found if one.end and one.end.at <= stream.opened.at]
        pause = stream.opened.at - max((one.end.at for one in before if one.end), default=stream.opened.at)
        if pause < _IDLE:
            continue
        expected = frozenset(device for one in before for report in one.reports for device in listed(report))
        if not stream.reports:
            if stream.first_is_late or _ended_by_driver(evidence, stream):
                return failed("a first report within 5 s", f"{stream}: no report", stream.opened.number)
            return not_tested(f"{stream} was open for only {stream.open_seconds:.1f} s", stream.opened.number)
        first = stream.reports[0]
        took, missing = first.at - stream.opened.at, expected - listed(first)
        if missing or stream.first_is_late:
            seen = f"without {named(missing)}" if missing else f"after {took:.1f} s"
            return failed(f"a first report within 5 s with {named(expected)}", f"{stream}: {seen}", first.number)
        records.append(first.number)
        pauses.append(pause)
    if pauses:
        return passed(f"after {max(pauses):.0f} s without a subscriber, new streams start with all devices", *records)
    return not_tested("no stream was opened after 30 s without a subscriber")


@check(
    "PLUGIN-26",
    "kubelet-restart",
    fix="Watch the ResourceSlices of the driver on its node, and publish all deleted ResourceSlices again.",
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
