"""What evidence shows of health: streams, timeouts, agreement of streams, and faults. Pure."""

import itertools
from collections.abc import Callable, Hashable, Iterator, Set
from dataclasses import dataclass, field, replace

from drahealth.proto.events import (
    FaultCleared,
    FaultInjected,
    MalformedReceived,
    ProcessStarted,
    ReportReceived,
    SignalSent,
    StreamClosed,
    StreamOpened,
)
from drahealth.proto.health_apis import HEALTH_APIS, HealthApi
from drahealth.proto.values import DEFAULT_TIMEOUT, DeviceHealth, Health
from drahealth.suites.driver_checks.evidence import Evidence, Observation
from drahealth.suites.driver_checks.observed import Device, advertised, described, named, process_of
from drahealth.suites.driver_checks.profile.faults import MARGIN
from drahealth.suites.driver_checks.verdicts import Finding, failed, not_tested

# The health streams: opened, reports, closed. And whether the driver has health at all.

OURS = "cancelled by drahealth"
"""Why a stream ended that drahealth cancelled."""
BY_MANAGER = "ended by the manager"
"""Why a stream ended that the reference ended."""
FIRST_REPORT = 5.0
"""Seconds from the start of a stream to its first report."""
OWN_DELAY = 1.0
"""Seconds by which drahealth itself may receive a message late, on a busy machine."""
FIRST_REPORT_WAIT = FIRST_REPORT + OWN_DELAY
"""Seconds for which experiments wait for the first report of a stream, and after which checks take it as late."""


@dataclass(frozen=True, slots=True)
class Stream:
    """One health stream."""

    experiment: str
    id: str
    api: HealthApi
    opened: Observation[StreamOpened]
    reports: list[Observation[ReportReceived]] = field(default_factory=list)
    malformed: list[Observation[MalformedReceived]] = field(default_factory=list)
    closed: list[Observation[StreamClosed]] = field(default_factory=list)

    @property
    def end(self) -> Observation[StreamClosed] | None:
        """How it ended; None if the evidence does not show it."""
        return self.closed[0] if self.closed else None

    @property
    def cancelled(self) -> bool:
        """Whether drahealth ended it."""
        return self.end is not None and self.end.what.why == OURS

    @property
    def ended_by_driver(self) -> bool:
        """Whether it ended, and neither drahealth nor the reference ended it."""
        why = self.end.what.why if self.end else OURS
        return not why.startswith((OURS, BY_MANAGER))

    @property
    def open_seconds(self) -> float:
        """Seconds from its start to its end; to its last report if the end is missing."""
        ends = [one.at for one in (*self.reports, *self.closed)]
        return max(ends, default=self.opened.at) - self.opened.at

    @property
    def first_is_late(self) -> bool:
        """Whether the first report came too late, or did not come although the stream was open long enough."""
        if self.reports:
            return self.reports[0].at - self.opened.at > FIRST_REPORT_WAIT
        return self.open_seconds >= FIRST_REPORT_WAIT - 0.1

    def __str__(self) -> str:
        return f"stream {self.id} ({self.api.name})"


def streams(evidence: Evidence, *experiments: str) -> list[Stream]:
    """The health streams of these experiments, in the order in which they were opened."""
    found: dict[tuple[str, str], Stream] = {}
    for record in evidence.records:
        what = record.what
        if experiments and record.experiment not in experiments:
            continue
        if isinstance(what, StreamOpened) and what.health_api in HEALTH_APIS:
            opened = Observation(record.number, record.at, record.experiment, what)
            key = (record.experiment, what.stream)
            found.setdefault(key, Stream(*key, HEALTH_APIS[what.health_api], opened))
        elif not isinstance(what, ReportReceived | MalformedReceived | StreamClosed):
            continue
        elif stream := found.get((record.experiment, what.stream)):
            _add(stream, Observation(record.number, record.at, record.experiment, what))
    return list(found.values())


def _add(stream: Stream, record: "Observation[ReportReceived | MalformedReceived | StreamClosed]") -> None:
    number, at, experiment, what = record.number, record.at, record.experiment, record.what
    match what:
        case ReportReceived():
            stream.reports.append(Observation(number, at, experiment, what))
        case MalformedReceived():
            stream.malformed.append(Observation(number, at, experiment, what))
        case StreamClosed():
            stream.closed.append(Observation(number, at, experiment, what))


UNREAD = "slow-subscriber"
"""The experiment whose streams drahealth does not read: they show nothing but their first report."""


def by_process(found: list[Stream], evidence: Evidence) -> list[list[Stream]]:
    """The streams of each process of the driver. A process that was started again is another one."""
    starts = [(one.what.process, one.number) for one in evidence.of(ProcessStarted)]
    groups: dict[tuple[str, str, int], list[Stream]] = {}
    for stream in found:
        process, opened = process_of(stream.experiment), stream.opened
        earlier = sum(name == process and number < opened.number for name, number in starts)
        groups.setdefault((process, opened.what.endpoint, earlier), []).append(stream)
    return [sorted(group, key=lambda one: one.opened.number) for group in groups.values()]


def device_of(reported: DeviceHealth) -> Device:
    """The identity of a reported device."""
    return Device(reported.pool, reported.device)


def listed(report: Observation[ReportReceived]) -> frozenset[Device]:
    """The devices of a report."""
    return frozenset(map(device_of, report.what.devices))


def arrivals(stream: Stream) -> dict[Device, list[tuple[float, int, DeviceHealth]]]:
    """When each device was reported, in order: time, record and content."""
    found: dict[Device, list[tuple[float, int, DeviceHealth]]] = {}
    for report in stream.reports:
        for one in report.what.devices:
            found.setdefault(device_of(one), []).append((report.at, report.number, one))
    return found


def is_served(stream: Stream) -> bool:
    """Whether the driver accepted the stream: it reported, or the stream stayed open until drahealth cancelled it."""
    return bool(stream.reports) or stream.cancelled


def served_apis(evidence: Evidence) -> dict[str, Stream]:
    """The health APIs that the driver serves, with the stream of `services` that shows it."""
    return {one.api.name: one for one in streams(evidence, "services") if is_served(one)}


def absence(evidence: Evidence) -> tuple[str, tuple[int, ...]] | None:
    """Why the driver has no health, with the records that prove it: each API was called and answered Unimplemented."""
    info, called = described(evidence), streams(evidence, "services")
    ends = [one.end for one in called if one.end and one.end.what.code == "UNIMPLEMENTED" and not one.reports]
    if info is None or {one.api.name for one in called} != set(HEALTH_APIS) or len(ends) < len(called):
        return None
    names = sorted(advertised(evidence) & {api.advertised for api in HEALTH_APIS.values()})
    start = f"{', '.join(names)} is advertised, but" if names else "health is not advertised, and"
    return f"{start} each health API answers Unimplemented", (
        info.number,
        *(end.number for end in ends),
    )


def lacks_health(evidence: Evidence) -> tuple[str, tuple[int, ...]] | None:
    """`absence` of a driver that advertises no health API. Nothing that exists to show health binds such a driver."""
    return None if advertised(evidence) & {api.advertised for api in HEALTH_APIS.values()} else absence(evidence)


# Until when a report of a device is valid, and whether a stream was watched until then. Pure.

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


# Whether two streams say the same of a device, although reports are in flight and drivers may poll for each stream.
#
# Two streams of a driver that polls show a change at different times, as late as the next poll. This is no
# contradiction. A contradiction is a repeated report of an old value, after the other stream showed the new one.

Times = list[tuple[float, int, DeviceHealth]]
"""When a device was reported: time, record and content."""
Value = Callable[[DeviceHealth], Hashable]

IN_FLIGHT = 1.0
"""Seconds by which one report may overtake another on the way."""
LATE = 5.0
"""Seconds after which a change that was sent at once on one stream must be on the other one."""


def contradiction(one: Times, other: Times, value: Value) -> tuple[int, int] | None:
    """The records of two reports that contradict each other; None if there are none."""
    ways = ((one, other), (other, one))
    odd = (wrong for a, b in ways for wrong in (_odd_first(a, b, value), _stale(a, b, value)) if wrong)
    return _first_contradiction(one, other, value) or next(odd, None)


def _odd_first(known: Times, new: Times, value: Value) -> tuple[int, int] | None:
    """The first report of a new stream, if the other one shows something else before, meanwhile and after.

    The second report of the new stream agrees with the other one, so that the first one was wrong.
    """
    if len(new) < 2 or not known or known[0][0] > new[0][0]:
        return None
    (start, number, first), (end, _, second) = new[:2]
    after = [one for at, _, one in known if at > start + IN_FLIGHT]
    meanwhile = {value(one) for at, _, one in known if at <= max(end, start + LATE) + IN_FLIGHT}
    soon = end - start <= LATE + IN_FLIGHT  # in a longer time the device itself can break and recover
    odd = soon and value(first) != value(second) and after and meanwhile == {value(second)}
    return (known[0][1], number) if odd else None


def _first_contradiction(one: Times, other: Times, value: Value) -> tuple[int, int] | None:
    """The first reports, if they came together, differ, and both stay as they are."""
    if not one or not other or abs(one[0][0] - other[0][0]) > IN_FLIGHT or value(one[0][2]) == value(other[0][2]):
        return None
    stays = all(_constant(times, times[0][0], times[0][0] + LATE, value) for times in (one, other))
    return (one[0][1], other[0][1]) if stays else None


def _stale(fresh: Times, repeating: Times, value: Value) -> tuple[int, int] | None:
    """A repeated report of a value, although the other stream reported another one between the two, and keeps it."""
    for (before, _, old), (after, number, again) in itertools.pairwise(repeating):
        if value(old) != value(again):
            continue
        between = [one for one in fresh if before - IN_FLIGHT <= one[0] < after - IN_FLIGHT]
        if between and value(between[-1][2]) != value(again):
            at, shown, _ = between[-1]
            if _constant(fresh, at, after + IN_FLIGHT, value):
                return shown, number
    return None


def _constant(times: Times, start: float, end: float, value: Value) -> bool:
    return len({value(one) for at, _, one in times if start <= at <= end}) == 1


def lost_change(sender: Times, receiver: Times, end: float, value: Value) -> int | None:
    """The record of a change that one stream showed at once, and the other one not within 5 s; None if there is none.

    Changes that lasted shorter may be merged. Changes in a regular report do not count: the driver may poll.
    """
    start = receiver[0][0] if receiver else end
    regular = [b[0] - a[0] for a, b in itertools.pairwise(sender) if value(a[2]) == value(b[2])]
    for before, (at, number, one) in itertools.pairwise(sender):
        if value(before[2]) == value(one) or at < start or at + LATE > end:
            continue
        at_once = not regular or at - before[0] < 0.8 * max(regular)
        if at_once and _constant(sender, at, at + LATE, value):
            shown = [r for when, _, r in receiver if when <= at - IN_FLIGHT][-1:]
            shown += [r for when, _, r in receiver if at - IN_FLIGHT < when <= at + LATE]
            if value(one) not in {value(r) for r in shown}:
                return number
    return None


def changes(times: Times, value: Value) -> int:
    """How often the value changed."""
    return sum(value(a[2]) != value(b[2]) for a, b in itertools.pairwise(times))


# The faults of a run, from the break to the heal, and when the health streams showed each step. Pure.

Step = Observation[FaultInjected] | Observation[FaultCleared]
Wanted = Callable[[DeviceHealth], bool]


@dataclass(frozen=True, slots=True)
class Shown:
    """Whether a stream that was open showed a step."""

    stream: Stream
    seconds: float
    """From the end of the step to the report; 0 if the report came before."""
    record: int
    """Of the report; without one, of the report that proves its absence; 0 for none."""
    outcome: str
    """`in time`, `late`, `never`, or `unproven`: no later report proves the absence."""


@dataclass(frozen=True, slots=True)
class Episode:
    """One fault: the break, and perhaps a change of the cause and a heal."""

    broken: Observation[FaultInjected]
    changed: Observation[FaultInjected] | None
    healed: Observation[FaultCleared] | None
    streams: tuple[Stream, ...]
    """Those of the experiment."""
    end: float
    """When the next fault of the experiment began."""
    signals: tuple[Observation[SignalSent], ...] = ()
    """The signals that were sent to the driver in the experiment."""

    @property
    def device(self) -> Device:
        """The device that was broken."""
        return Device(self.broken.what.pool, self.broken.what.device)

    @property
    def steps(self) -> tuple[tuple[Step, Wanted], ...]:
        """The steps that are done, with what each must show."""
        found: list[tuple[Step, Wanted]] = [(self.broken, self.shows_break)]
        found += [(self.changed, self.shows_change)] if self.changed else []
        found += [(self.healed, shows_heal)] if self.healed else []
        return tuple((step, wanted) for step, wanted in found if step.what.outcome == "done")

    def shows_break(self, reported: DeviceHealth) -> bool:
        """Whether a report has the declared health."""
        return str(reported.health) == self.broken.what.health

    def shows_change(self, reported: DeviceHealth) -> bool:
        """Whether a report differs from all reports of the device between the break and the change."""
        assert self.changed
        start, end = began(self.broken), began(self.changed)
        each = (times for stream in self.streams for times in arrivals(stream).get(self.device, []))
        before = {(one.health, one.message) for at, _, one in each if start <= at < end}
        return (reported.health, reported.message) not in before

    def reactions(self, step: Step, wanted: Wanted) -> list[Shown]:
        """Whether each stream showed a step that is done.

        Streams that were not open are left out, and so are those that cannot show it.
        """
        able = [one for one in self.streams if self._can_show(one, step)]
        if step is self.changed and any("message" in one.api.carries for one in able):
            able = [one for one in able if "message" in one.api.carries]
        return [found for stream in able if (found := self._reaction(stream, step, wanted))]

    def _can_show(self, stream: Stream, step: Step) -> bool:
        """Whether the stream lists the device: one of prepared devices may not."""
        if not stream.api.prepared_only:
            return True
        before = [report for report in stream.reports if report.at < began(step)][-1:]
        return bool(before) and self.device in listed(before[0])

    def best(self, step: Step, wanted: Wanted) -> Shown | None:
        """The first stream that showed it; otherwise one that proves that none did."""
        order = ("in time", "late", "never", "unproven")
        found = self.reactions(step, wanted)
        return min(found, key=lambda one: (order.index(one.outcome), one.seconds), default=None)

    def _reaction(self, stream: Stream, step: Step, wanted: Wanted) -> Shown | None:
        limit = deadline(step)
        closed = stream.end.at if stream.end else float("inf")
        times = [one for one in arrivals(stream).get(self.device, []) if began(step) <= one[0] < self.end]
        for at, number, one in times:
            if wanted(one):
                return Shown(stream, max(at - step.at, 0.0), number, "in time" if at <= limit else "late")
        if closed < limit or stream.opened.at > limit:
            return None
        later = [(number, one) for at, number, one in times if at > limit]
        if later:
            return Shown(stream, limit - step.at, later[0][0], "never")
        timeout = max((one.timeout for _, _, one in times), default=0)
        silent = stream.opened.at + stream.open_seconds >= limit + (timeout if timeout > 0 else DEFAULT_TIMEOUT)
        return Shown(stream, limit - step.at, 0, "never" if silent else "unproven")


def shows_heal(reported: DeviceHealth) -> bool:
    """Whether a report shows a healthy device."""
    return reported.health is Health.HEALTHY


def fault_steps(evidence: Evidence, *experiments: str) -> list[Step]:
    """What the fault adapters did in these experiments, in order; without experiments, in all of them."""
    found: list[Step] = [*evidence.of(FaultInjected, *experiments), *evidence.of(FaultCleared, *experiments)]
    return sorted(found, key=lambda one: one.number)


def acted_on(step: Step) -> Device:
    """The device that a step breaks or heals."""
    return Device(step.what.pool, step.what.device)


def fault_steps_by_device(evidence: Evidence, experiment: str) -> dict[Device, list[Step]]:
    """The same for each device."""
    found: dict[Device, list[Step]] = {}
    for step in fault_steps(evidence, experiment):
        found.setdefault(acted_on(step), []).append(step)
    return found


def failed_adapter(step: Step, about: str) -> Finding | None:
    """What the driver profile declares for a step whose adapter failed; None for a step that is done."""
    if step.what.outcome == "done":
        return None
    seen = f"{about}: `{step.what.action}` {step.what.outcome}: {step.what.problem}"
    if step.what.on_error == "FAIL" and step.what.outcome != "interrupted":
        return failed("the fault adapter works", seen, step.number)
    return not_tested(seen, step.number)


RECORDED = 0.02
"""Seconds by which the record of an action may be late: its effect can be reported before its recorded start."""
APART = 5 * RECORDED
"""Seconds from a report that proves something to the next action. A report within `RECORDED` proves nothing."""


def adapter_cause(asked: Device, others: Set[Device], *, shown: bool = False, worked: Set[Device] = frozenset()) -> str:
    """What the fault adapter may have done; "" if it did what it was asked for.

    `others` changed without an action on them, `shown` is whether the device shows its action, and `worked` are the
    devices on which the same fault had an effect.
    """
    if others and shown:
        return f"; the fault adapter may also change {named(others)}"
    if others:
        return (
            f"; {named(others)} changed instead: the fault adapter may break another device than {asked}, "
            "or the driver reports the health of the wrong device"
        )
    if worked:
        return f"; no device changed, but the same fault had an effect on {named(worked)}"
    return "" if shown else "; no device changed: the fault adapter may have no effect"


def began(step: Step) -> float:
    """When the action of a step began."""
    return step.at - step.what.seconds


def moved(step: Step, at: float) -> Step:
    """The step as if its action had been done at this time."""
    if isinstance(step.what, FaultCleared):
        return Observation(step.number, at, step.experiment, replace(step.what, seconds=0.0))
    return Observation(step.number, at, step.experiment, replace(step.what, seconds=0.0))


def deadline(step: Step) -> float:
    """When a report must show a step that is done."""
    return step.at + step.what.settle + MARGIN


def episodes(evidence: Evidence, *experiments: str) -> Iterator[Episode]:
    """The faults of these experiments, in order."""
    for name in experiments:
        breaks = [one for one in evidence.of(FaultInjected, name) if one.what.step == "break"]
        changes = [one for one in evidence.of(FaultInjected, name) if one.what.step == "change"]
        heals = list(evidence.of(FaultCleared, name))
        open_ = tuple(streams(evidence, name))
        signals = tuple(evidence.of(SignalSent, name))
        for number, broken in enumerate(breaks):
            end = began(breaks[number + 1]) if number + 1 < len(breaks) else float("inf")

            def mine(step: Step, start: float = broken.at, end: float = end) -> bool:
                return start <= step.at and began(step) < end

            changed, healed = next(filter(mine, changes), None), next(filter(mine, heals), None)
            yield Episode(broken, changed, healed, open_, end, signals)
