"""Checks of several subscribers: two at once, one after another, and two health APIs."""

from collections.abc import Hashable, Iterator, Set
from dataclasses import replace
from itertools import combinations, groupby

from drahealth.proto.events import FaultInjected
from drahealth.proto.health_apis import NODE_HEALTH_DRAFT
from drahealth.proto.values import DeviceHealth, Health
from drahealth.suites.driver_checks.check import everywhere, health_check
from drahealth.suites.driver_checks.evidence import Evidence
from drahealth.suites.driver_checks.observed import Device, named, process_of, published
from drahealth.suites.driver_checks.observed_health import (
    FIRST_REPORT_WAIT,
    IN_FLIGHT,
    LATE,
    OWN_DELAY,
    Stream,
    Times,
    Value,
    arrivals,
    began,
    by_process,
    changes,
    contradiction,
    device_of,
    listed,
    lost_change,
    streams,
    timeout_of,
)
from drahealth.suites.driver_checks.verdicts import (
    Finding,
    Verdict,
    failed,
    not_applicable,
    not_tested,
    passed,
    static,
    strongest,
    worst,
)

_FAULTS = "faults"
"""The experiment in which two streams of another driver process show the faults of the driver profile."""
_SHARED = 5.0
"""Seconds for which two streams must be open at the same time to be compared."""
_FEWER, _SHARE = 3, 0.6
"""A subscriber loses reports if it has at least so many fewer, and at most this share of those of another one."""


@health_check(
    "HEALTH-08",
    "watch",
    fix="Keep one list of the devices and their health. Use it for the reports over all health APIs.",
    reads=("slices",),
)
def health_apis_agree(evidence: Evidence, found: list[Stream]) -> Finding:
    """Streams of different health APIs report the same devices, with the same health and message."""
    names = {one.api.name for one in found}
    if not found:
        return not_tested("no health stream was opened")
    if len(names) < 2:
        return not_applicable(f"the driver serves one health API, {min(names)}", found[0].opened.number)
    always, records, compared = published(evidence).always, [], 0
    watched = [(one, other) for one, other in combinations(found, 2) if one.api is not other.api]
    for one, other in (*watched, *_beside(evidence, found)):
        if not one.reports or not other.reports:
            continue
        draft = NODE_HEALTH_DRAFT in (one.api, other.api)
        mine, theirs = _while_both(one, other)
        main = one in found
        only = (mine.keys() ^ theirs.keys()) & ((main and always) or mine.keys() | theirs.keys())
        if only and not draft:
            seen = f"{named(only)} in only one of two streams: {one} and {other}"
            return failed("all health APIs report the same devices", seen, one.opened.number, other.opened.number)
        for device in sorted(mine.keys() & theirs.keys()):
            value = _value_in_both(one, other)
            both_ = [(mine[device], theirs[device])]
            prepared = one.api.prepared_only or other.api.prepared_only
            parts = (contradiction(*both, value) for both in (_comparable(one, other, device) if prepared else both_))
            if wrong := next(filter(None, parts), None):
                seen = f"{device}: {_state(one, device, wrong)} in {one}, {_state(other, device, wrong)} in {other}"
                return failed("the same health and message in all health APIs", seen, *wrong)
            compared += main
        records += [one.reports[0].number, other.reports[0].number] if main else []
    if not compared:
        return not_tested("no device was reported by two health APIs", *records)
    return passed(f"{', '.join(sorted(names))} agree", *dict.fromkeys(records))


def _beside(evidence: Evidence, found: list[Stream]) -> Iterator[tuple[Stream, Stream]]:
    """The pairs of streams of different health APIs that were open at the same time, besides those of `found`."""
    for group in by_process(everywhere(evidence, found, "HEALTH-08"), evidence):
        for one, other in combinations(group, 2):
            if one.api is not other.api and not (one in found and other in found):
                start, end = _both_open(one, other)
                if end - start >= _SHARED:
                    yield one, other


def _full(evidence: Evidence, found: list[Stream], requirement: str) -> list[Stream]:
    """`everywhere`, without the health API that lists only prepared devices."""
    return [one for one in everywhere(evidence, found, requirement) if not one.api.prepared_only]


def _both_open(one: Stream, other: Stream) -> tuple[float, float]:
    """The time in which two streams are open."""
    ends = (one.opened.at + one.open_seconds, other.opened.at + other.open_seconds)
    return max(one.opened.at, other.opened.at), min(ends)


def _while_both(one: Stream, other: Stream) -> tuple[dict[Device, Times], dict[Device, Times]]:
    """What two streams report while both are open, with what each showed at the start."""
    start, end = _both_open(one, other)
    return _between(one, start, end), _between(other, start, end)


def _comparable(one: Stream, other: Stream, device: Device) -> Iterator[tuple[Times, Times]]:
    """The reports of a device in two streams. One of prepared devices counts only while it lists the device."""
    prepared = next((each for each in (one, other) if each.api.prepared_only), None)
    if prepared is None:
        mine, theirs = _while_both(one, other)
        yield mine[device], theirs[device]
        return
    opened, closed = _both_open(one, other)
    for first, last in _periods(prepared, device):
        start, end = max(first, opened), min(last, closed)
        if end - start >= LATE:
            start = max(start - IN_FLIGHT, opened)  # the other one may have shown a change just before
            yield _between(one, start, end)[device], _between(other, start, end)[device]


def _periods(stream: Stream, device: Device) -> Iterator[tuple[float, float]]:
    """The first and the last report of each row of reports that list the device."""
    for lists, row in groupby(stream.reports, lambda report: device in listed(report)):
        times = [report.at for report in row]
        if lists:
            yield times[0], times[-1]


def _value_in_both(one: Stream, other: Stream) -> Value:
    """What two streams must agree on: the health, and the message if both have one."""
    messages = "message" in one.api.carries & other.api.carries

    def value(device: DeviceHealth) -> Hashable:
        return device.health, device.message if messages else ""

    return value


@health_check(
    "HEALTH-10",
    "watch",
    "subscribers",
    fix="Give each stream its own channel, and send each change to all channels.",
    reads=("slow-subscriber", _FAULTS),
)
def all_subscribers_receive_all_reports(evidence: Evidence, found: list[Stream]) -> Finding:
    """Streams of one health API that are open at the same time show the same changes, and both are refreshed."""
    faults = list(evidence.of(FaultInjected, _FAULTS))
    records, compared, reported, changed, caused = [], 0, 0, 0, 0
    counted = [*_together(found), *_together(streams(evidence, _FAULTS), shared=0)]
    others = [
        pair
        for group in by_process(_full(evidence, found, "HEALTH-10"), evidence)
        for pair in _together(group)
        if pair not in counted
    ]
    for one, other in (*counted, *others):
        start, end = _both_open(one, other)
        mine, theirs = _between(one, start, end), _between(other, start, end)
        both = 0
        for device in sorted(mine.keys() | theirs.keys()):
            a, b = mine.get(device, []), theirs.get(device, [])
            if lost := _lost(a, b, end):
                problem, number = lost
                seen = f"{device} in {one} and {other}: {problem}"
                return failed(
                    "both subscribers receive all reports", seen, one.opened.number, other.opened.number, number
                )
            both += min(changes(a, _value), changes(b, _value))
        if (one, other) in others:
            continue
        compared, reported = compared + 1, reported + len(mine.keys() | theirs.keys())
        changed, caused = changed + both, caused + both * (one.experiment == _FAULTS)
        records += [one.opened.number, other.opened.number]
    if not compared:
        return not_tested("no two streams of a health API were open at the same time")
    if not reported:
        return not_tested("no device was reported", *dict.fromkeys(records))
    if not changed:
        return static("all subscribers received reports, and no device changed", *dict.fromkeys(records))
    grade = "observed" if changed > caused else strongest(one.what.grade for one in faults)
    return replace(passed(f"all subscribers received {changed} changes", *dict.fromkeys(records)), grade=grade)


def _together(found: list[Stream], shared: float = _SHARED) -> Iterator[tuple[Stream, Stream]]:
    """Pairs of streams of one health API that were open at the same time, and ended as planned."""
    for one, other in combinations((one for one in found if one.cancelled), 2):
        start, end = _both_open(one, other)
        if one.api is other.api and end - start >= shared:
            yield one, other


def _between(stream: Stream, start: float, end: float) -> dict[Device, Times]:
    """What the stream reported while both were open, with what it showed at the start."""
    found = {}
    for device, times in arrivals(stream).items():
        before = [(start, number, one) for at, number, one in times if at < start][-1:]
        found[device] = before + [each for each in times if start <= each[0] <= end]
    return found


def _value(device: DeviceHealth) -> Hashable:
    return device.health, device.message


def _lost(a: Times, b: Times, end: float) -> tuple[str, int] | None:
    """What one of two streams did not receive, with a record of the other."""
    if wrong := contradiction(a, b, _value):
        return "the two streams report different health or messages", wrong[0]
    for sender, receiver in ((a, b), (b, a)):
        if not receiver and len(sender) > 1:
            return f"one stream has {len(sender)} reports, the other stream has none", sender[0][1]
        if number := lost_change(sender, receiver, end, _value):
            return "one stream shows a change, the other stream does not show it within 5 s", number
        if _misses_reports(sender, receiver, end):
            return f"one stream has {len(sender)} reports, the other stream has {len(receiver)}", sender[-1][1]
        if sender and _stale(receiver, end) and not _stale(sender, end):
            return "only one of the two streams reports the device again within the timeout", sender[-1][1]
    return None


def _misses_reports(sender: Times, receiver: Times, end: float) -> bool:
    """Whether one stream got about half of the other's reports, and at least three fewer.

    Reports more often than once a second do not count: a driver may merge them when a stream is slow.
    """
    sent, received = len(sender) - 1, len(receiver) - 1
    if not sender or not receiver or sent > end - sender[0][0]:
        return False
    return sent - received >= _FEWER and received <= _SHARE * sent


def _stale(times: Times, end: float) -> bool:
    """Whether the device was not refreshed within its timeout."""
    stops = [*(at for at, _, _ in times[1:]), end]
    return any(stop - at > timeout_of(one) + OWN_DELAY for (at, _, one), stop in zip(times, stops, strict=False))


@health_check(
    "HEALTH-11",
    "subscribers",
    fix="Send the health of all devices at the start of each stream, even if it was sent on an earlier stream.",
    reads=("slices",),
)
def new_stream_starts_with_all_devices(evidence: Evidence, found: list[Stream]) -> Finding:
    """The stream after a cancelled one has a first report with all devices, and with the health that they have."""
    always = published(evidence).always
    judged = []
    for group in by_process(_full(evidence, found, "HEALTH-11"), evidence):
        for cancelled in group:
            if not (cancelled.cancelled and cancelled.end and cancelled.reports):
                continue
            end = cancelled.end.number
            again = next((one for one in group if one.opened.number > end and one.api is cancelled.api), None)
            if not again:
                continue
            main = cancelled in found
            finding = _restart(cancelled, again, end, always if main else frozenset(), _broken(evidence, again))
            if finding and (main or finding.verdict is Verdict.FAIL):
                judged.append(finding)
        reported = [(one, arrivals(one)) for one in group]
        judged += filter(None, (_other_health(evidence, one, reported) for one in group))
    return worst(judged or [not_tested("no stream was opened after a cancelled one")])


def _broken(evidence: Evidence, stream: Stream) -> frozenset[Device]:
    """The devices that had a fault before the first report of a stream: other requirements judge them."""
    process = process_of(stream.experiment)
    return frozenset(
        Device(one.what.pool, one.what.device)
        for one in evidence.of(FaultInjected)
        if process_of(one.experiment) == process and began(one) <= stream.opened.at + FIRST_REPORT_WAIT
    )


def _other_health(evidence: Evidence, new: Stream, group: list[tuple[Stream, dict[Device, Times]]]) -> Finding | None:
    """A failure if the first report of a stream has a health that neither the reports before nor those after have.

    `group` are all streams of the process, each with its reports.
    """
    if not new.reports or new.api.prepared_only:
        return None
    first, broken = new.reports[0], _broken(evidence, new)
    others = [each for each in group if not each[0].api.prepared_only and each[0].opened.at < new.opened.at]
    if not any(one.opened.at + one.open_seconds > first.at + LATE for one, _ in others):
        return None  # no other stream was open: the device itself can have broken and recovered in between
    mine = next(times for one, times in group if one is new)
    for one in first.what.devices:
        device = device_of(one)
        said = sorted((each for _, times in others for each in times.get(device, [])), key=lambda each: each[0])
        before = [each for each in said if each[0] < new.opened.at][-1:]
        later = (each for each in (*said, *mine[device][1:]) if each[0] > first.at + IN_FLIGHT)
        after = min(later, key=lambda each: each[0], default=None)
        if device in broken or not before or after is None:
            continue
        (start, earlier, old), (end, _, again) = before[0], after
        if old.health is not again.health or one.health is old.health or end - start > LATE + IN_FLIGHT:
            continue  # in a longer time the device itself can break and recover
        if not any(abs(at - first.at) <= LATE and each.health is one.health for at, _, each in said):
            seen = f"{device} in the first report of {new}: {one.health}; before and after it, {old.health}"
            return failed("the health that the device has", seen, earlier, first.number, after[1])
    return None


def _restart(cancelled: Stream, again: Stream, end: int, always: Set[Device], broken: Set[Device]) -> Finding | None:
    """Whether the stream after a cancelled one, which ended with the record `end`, has all devices at once."""
    first = cancelled.reports[0]
    expected = listed(first) & always if always else listed(first)
    if not expected:
        return not_tested("the cancelled stream reported no device", first.number)
    if not again.reports:
        if not again.first_is_late and not (again.end and not again.cancelled):
            return None
        seen = f"{again}: no report in {again.open_seconds:.1f} s"
        return failed("a first report within 5 s", seen, first.number, end, again.opened.number)
    report = again.reports[0]
    if missing := expected - listed(report) - broken:
        seen = f"{again}: without {named(missing)}"
        return failed(f"all devices: {named(expected)}", seen, first.number, end, report.number)
    if again.first_is_late:
        took = report.at - again.opened.at
        return failed("a first report within 5 s", f"after {took:.1f} s", end, report.number)
    return passed(f"the new stream starts with all {len(expected)} devices", first.number, end, report.number)


def _state(stream: Stream, device: Device, records: tuple[int, int]) -> str:
    """What a stream says of a device in one of the records."""
    shown = [one for _, number, one in arrivals(stream)[device] if number in records]
    state: Health | str = shown[0].health if shown else "?"
    return f"{state} {shown[0].message!r}" if shown and shown[0].message else str(state)
