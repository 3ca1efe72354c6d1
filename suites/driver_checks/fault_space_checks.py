"""Checks of all experiments with faults: what holds for each device, stream and moment, whatever was done elsewhere."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Literal

from drahealth.proto.events import ExperimentEnded, FaultCleared, FaultInjected, ProcessStarted
from drahealth.proto.values import DeviceHealth, Health
from drahealth.suites.driver_checks.check import check
from drahealth.suites.driver_checks.evidence import Evidence
from drahealth.suites.driver_checks.observed import Device
from drahealth.suites.driver_checks.observed_health import (
    IN_FLIGHT,
    RECORDED,
    Step,
    Stream,
    Times,
    absence,
    adapter_cause,
    arrivals,
    began,
    deadline,
    failed_adapter,
    fault_steps_by_device,
    streams,
)
from drahealth.suites.driver_checks.profile.faults import MARGIN
from drahealth.suites.driver_checks.verdicts import (
    Finding,
    Grade,
    Verdict,
    failed,
    not_applicable,
    not_tested,
    passed,
    static,
    strongest,
    worst,
)

PLAN = "fault-plan"
ALWAYS = (
    *("faults", PLAN, "fault-during-prepare", "fault-without-stream", "fault-without-api-server"),
    *("fault-during-kubelet-restart", "second-fault", "idle"),
)
"""The experiments with faults whose reports count from the time of the action on.

In others the driver is stopped, starts again, lacks its backend, or has two instances. They have their own checks of
the device that broke.
"""
_BACKEND = "backend-restart"
_WITH_FAULTS = (*ALWAYS, "fault-while-stopped", "fault-over-restart", _BACKEND, "rolling-update")
"""All experiments that break devices and watch health streams."""


ACTION_LIMIT = 10.0
"""Seconds that an action takes at most, by default."""

# What was done to each device, and what it must show until the next action.


@dataclass(frozen=True, slots=True)
class Watched:
    """A stream with the reports of each device."""

    stream: Stream
    times: Mapping[Device, Times]


@dataclass(frozen=True, slots=True)
class Phase:
    """From an action on a device until the next one."""

    step: Step
    device: Device
    shows: frozenset[str]
    """The healths that the driver may report; empty after an action that failed."""
    end: float
    streams: tuple[Watched, ...]
    """Those of the experiment."""
    before: "Phase | None" = None
    """The action before."""

    @property
    def start(self) -> float:
        """When the action began."""
        return began(self.step)

    @property
    def limit(self) -> float:
        """When a report must show it."""
        return deadline(self.step)

    @property
    def about(self) -> str:
        """The device and the fault, in words."""
        what = self.step.what
        verb = "cleared" if isinstance(what, FaultCleared) else "caused"
        return f"{self.device}, fault {what.fault} {verb} by `{what.action}`"

    @property
    def grade(self) -> Grade:
        """How the fault was caused."""
        if isinstance(self.step.what, FaultInjected):
            return self.step.what.grade
        return self.before.grade if self.before else ""

    def times(self, watched: Watched) -> Times:
        """The reports of the device on a stream in this phase."""
        return [one for one in watched.times.get(self.device, []) if self.start <= one[0] < self.end]

    def is_shown(self, one: DeviceHealth) -> bool:
        """Whether a report has one of the healths."""
        return str(one.health) in self.shows

    def first_shown(self, each: Sequence[Watched]) -> float:
        """When one of the streams first showed it; infinity if none did."""
        return min(
            (at for stream in each for at, _, one in self.times(stream) if self.is_shown(one)), default=float("inf")
        )


def phases(evidence: Evidence, *experiments: str) -> list[Phase]:
    """All actions on devices in these experiments."""
    found = []
    for name in experiments:
        by_device = fault_steps_by_device(evidence, name)
        if not by_device:
            continue
        mine = tuple(Watched(one, arrivals(one)) for one in streams(evidence, name) if not one.api.prepared_only)
        starts = [one.at for one in evidence.of(ProcessStarted, name)]
        over = recorded_until(evidence, name)
        for device, each in by_device.items():
            before = None
            for step, later in itertools.zip_longest(each, each[1:]):
                end = began(later) if later else over
                if isinstance(step.what, FaultCleared) or step.what.grade == "asked":  # a new process may not know it
                    end = min([end, *(at for at in starts if at > step.at)])
                before = Phase(step, device, _shows(step), end, mine, before)
                found.append(before)
    return found


def recorded_until(evidence: Evidence, experiment: str) -> float:
    """Until when all actions are recorded. If drahealth was killed, one more may have begun."""
    if any(one.experiment == experiment for one in evidence.of(ExperimentEnded)):
        return float("inf")
    return max((one.at for one in evidence.records if one.experiment == experiment), default=0.0) - ACTION_LIMIT


def _shows(step: Step) -> frozenset[str]:
    what = step.what
    if what.outcome != "done":
        return frozenset()
    if what.shows:
        return frozenset(what.shows)
    if isinstance(what, FaultCleared):
        return frozenset({str(Health.HEALTHY)})
    return (
        frozenset({what.health}) if what.step == "break" else frozenset({Health.UNHEALTHY.value, Health.UNKNOWN.value})
    )


def _nothing(evidence: Evidence) -> Finding:
    if absent := absence(evidence):
        return not_applicable(absent[0], *absent[1])
    return not_tested("no fault was caused")


# A report agrees with what the driver said before.


@check(
    "FAULT-16",
    "services",
    "faults",
    reads=ALWAYS[1:],
    fix="Keep the health of each device in one place, and make each report from it: over each health API, for new "
    "streams, and for heartbeats.",
)
def reports_agree_while_a_fault_lasts(evidence: Evidence) -> Finding:
    """After a fault, or a recovery, was reported or had to be, no report of the device on any stream says otherwise."""
    found = phases(evidence, *ALWAYS)
    compared = 0
    for phase in found:
        late = phase.before is not None and phase.before.first_shown(phase.streams) > phase.before.limit
        if not phase.shows or late:  # what was late can come after the next action: FAULT-01 judges it
            continue
        any_ = phase.first_shown(phase.streams)
        for watched in phase.streams:
            mine = phase.times(watched)
            if any_ == float("inf") or not mine:
                continue
            compared += _kind(phase.step) in ("break", "unknown")
            if problem := _disagrees(phase, watched, mine, any_):
                at, number, one = problem[1]
                seen = f"{phase.about}: {one.health} {one.message!r} {problem[0]}, {at - phase.step.at:.1f} s later"
                return failed(
                    f"{' or '.join(sorted(phase.shows))} in each report until the next change",
                    f"{seen}, in {watched.stream}",
                    phase.step.number,
                    number,
                )
    if not compared:
        return _nothing(evidence)
    text = f"{compared} streams agree after {len(found)} actions"
    return replace(passed(text, *(one.step.number for one in found)), grade=strongest(one.grade for one in found))


def _disagrees(
    phase: Phase, watched: Watched, mine: Times, any_: float
) -> tuple[str, tuple[float, int, DeviceHealth]] | None:
    """The first report of a stream that says otherwise, and why it counts."""
    stream, shown = watched.stream, False
    same_api = phase.first_shown([one for one in phase.streams if one.stream.api is stream.api])
    for report in mine:
        at, number, one = report
        if phase.is_shown(one):
            shown = True
        elif at >= phase.end - RECORDED:
            return None
        elif shown:
            return "after this stream had shown it", report
        elif at > max(phase.limit, any_ + IN_FLIGHT):
            return "after the settle time", report
        elif number == stream.reports[0].number and (
            stream.opened.at > same_api or stream.opened.at > any_ + IN_FLIGHT
        ):
            return "in the first report of a new stream, although another stream had shown it", report
    return None


@check(
    "FAULT-16",
    "services",
    "faults",
    reads=ALWAYS[1:],
    fix="Keep the message of each device in one place, and make each report from it.",
)
def messages_agree_while_a_fault_lasts(evidence: Evidence) -> Finding:
    """After a fault, or a recovery, all streams have the same message with the same health.

    Not judged if messages also change while nothing happens to the device, as with a counter or a temperature.
    """
    found = phases(evidence, *ALWAYS)
    if not found:
        return _nothing(evidence)
    if varies := next(filter(None, map(_other_message, found)), None):
        return not_applicable("the messages of a device change while nothing happens to it", *varies)
    compared = 0
    for phase in found:
        starts = [one.at for one in evidence.of(ProcessStarted, phase.step.experiment)]
        for one, other in itertools.combinations(_last_shown(phase), 2):
            compared += _kind(phase.step) in ("break", "unknown")
            (stream, at, number, mine), (beside, after, later, theirs) = one, other
            same_process = not any(min(at, after) < start <= max(at, after) for start in starts)
            if same_process and mine.health is theirs.health and mine.message != theirs.message:
                seen = f"{phase.about}: {mine.message!r} in {stream}, {theirs.message!r} in {beside}"
                expected = f"the same message for {mine.health} in all streams"
                return failed(expected, seen, phase.step.number, number, later)
    if not compared:
        return not_tested("no two streams showed the same fault")
    judged = passed(f"the messages of {compared} pairs of reports agree", found[0].step.number)
    return replace(judged, grade=strongest(one.grade for one in found))


def _other_message(phase: Phase) -> tuple[int, int] | None:
    """Two reports of a stream, one after the other, with the same health after an action, and different messages."""
    said = _said_in(phase.before)
    for watched in phase.streams:
        mine = [one for one in phase.times(watched) if phase.is_shown(one[2])]
        for (_, number, one), (_, later, again) in itertools.pairwise(mine):
            if one.health is again.health and one.message != again.message and (one.health, one.message) not in said:
                return number, later
    return None


_Said = Set[tuple[Health, str]]


def _said_in(phase: Phase | None) -> _Said:
    """What all streams said of the device in a phase."""
    if phase is None:
        return set()
    return {(one.health, one.message) for watched in phase.streams for _, _, one in phase.times(watched)}


def _last_shown(phase: Phase) -> list[tuple[Stream, float, int, DeviceHealth]]:
    """The last report of the device in each stream with messages, if the stream shows what was done.

    What was said before the action does not count: the stream can have ended before it showed the action.
    """
    said, found = _said_in(phase.before), []
    for watched in phase.streams if phase.shows else ():
        mine = phase.times(watched)
        if mine and "message" in watched.stream.api.carries:
            at, number, one = mine[-1]
            if phase.is_shown(one) and (one.health, one.message) not in said:
                found.append((watched.stream, at, number, one))
    return found


@check(
    "FAULT-17",
    "services",
    "faults",
    reads=ALWAYS[1:],
    fix="Make the message of a device from its current problem, in the same report as its health.",
)
def message_is_that_of_the_fault(evidence: Evidence) -> Finding:
    """While a fault lasts, the message of the device has the text that the driver profile declares for it."""
    found = phases(evidence, *ALWAYS)
    if not found:
        return _nothing(evidence)
    declared = list(filter(_declared_message, found))
    if not declared:
        return not_applicable("no fault declares a message", found[0].step.number)
    judged = 0
    for phase in declared:
        text = _declared_message(phase)
        for stream, number, one in _messages(phase):
            judged += 1
            if text not in one.message:
                seen = f"{phase.about}: {one.health} {one.message!r} in {stream}"
                return failed(f"a message with {text!r}", seen, phase.step.number, number)
    problems = (failed_adapter(one.step, str(one.device)) for one in declared)
    if problem := next(filter(None, problems), None):
        return problem
    if not judged:
        return not_tested("no stream with messages showed a fault that declares one")
    result = passed(f"{judged} messages have the text that their fault declares", declared[0].step.number)
    return replace(result, grade=strongest(one.grade for one in declared))


def _messages(phase: Phase) -> Iterator[tuple[Stream, int, DeviceHealth]]:
    """The reports with the fault after the settle time; before it the last one, unless it says what was said before."""
    said = _said_in(phase.before)
    for watched in phase.streams:
        times = phase.times(watched) if "message" in watched.stream.api.carries else []
        mine = [one for one in times if phase.is_shown(one[2]) and one[0] < phase.end - RECORDED]
        for at, number, one in mine:
            if at > phase.limit or (number == mine[-1][1] and (one.health, one.message) not in said):
                yield watched.stream, number, one


def _declared_message(phase: Phase) -> str:
    return phase.step.what.message if isinstance(phase.step.what, FaultInjected) else ""


# Other devices.


@check(
    "FAULT-05",
    "services",
    PLAN,
    reads=tuple(name for name in _WITH_FAULTS if name != PLAN),
    fix="Change only the health and the message of the device that broke or recovered.",
)
def bystanders_keep_their_health(evidence: Evidence) -> Finding:
    """No report of any stream changes a device because of what happens to another one."""
    found = phases(evidence, *_WITH_FAULTS)
    by_experiment: dict[str, list[Phase]] = {}
    for phase in found:
        by_experiment.setdefault(phase.step.experiment, []).append(phase)
    watched: set[Device] = set()
    for name, mine in by_experiment.items():
        starts, over = [one.at for one in evidence.of(ProcessStarted, name)], recorded_until(evidence, name)
        for device, before, after, stream in _changes(mine[0].streams):
            watched.add(device)
            start = max((at for at in starts if at <= after[0]), default=0.0)
            if before[0] < start or after[0] >= over:
                continue  # another process said it, or an action on the device is not recorded
            beside = [one for one in mine[0].streams if _endpoint(one.stream) == _endpoint(stream)]
            starting = name == _BACKEND or _is_starting(beside, device, start, before)
            if before[2].health is Health.UNKNOWN and starting:
                continue  # a driver that starts, or connects to its backend, has not determined the health yet
            own = [one for one in mine if one.device == device and one.start - RECORDED <= after[0]]
            if _is_explained(own[-1] if own else None, before, after):
                continue
            cause = next((one for one in mine if one.device != device and _is_near(one, after[0])), None)
            if cause and not (name not in ALWAYS and _are_lost_together(cause, stream, before, after)):
                old, new = before[2], after[2]
                shown = cause.first_shown(cause.streams) <= cause.limit
                hint = adapter_cause(cause.device, {device}, shown=shown)
                seen = f"{device}: {new.health} {new.message!r} in {stream}, when {cause.about}{hint}"
                expected = f"{device} stays {old.health} {old.message!r}"
                return failed(expected, seen, cause.step.number, before[1], after[1])
    if not found or not any(mine[0].streams for mine in by_experiment.values()):
        return _nothing(evidence)
    judged = passed(f"no bystander changed during {len(found)} actions", *(one.step.number for one in found))
    return replace(judged, grade=strongest(one.grade for one in found))


_Report = tuple[float, int, DeviceHealth]


def _endpoint(stream: Stream) -> str:
    """The socket of the instance of the driver that a stream belongs to."""
    return stream.opened.what.endpoint


def _are_lost_together(cause: Phase, stream: Stream, *changed: _Report) -> bool:
    """Whether the device that broke is also Unknown in one of these reports.

    Then the driver did not know the health of several devices, because it was stopped, or had no backend.
    """
    times = [
        one for watched in cause.streams if watched.stream is stream for one in watched.times.get(cause.device, ())
    ]
    numbers = {number for _, number, one in changed if one.health is Health.UNKNOWN}
    return any(number in numbers and one.health is Health.UNKNOWN for _, number, one in times)


def _is_starting(each: Sequence[Watched], device: Device, start: float, until: "_Report") -> bool:
    """Whether a process that started then has said only Unknown of a device, up to this report."""
    times = (one for watched in each for one in watched.times.get(device, ()))
    return all(one.health is Health.UNKNOWN for at, number, one in times if start <= at and number <= until[1])


def _changes(each: Sequence[Watched]) -> Iterator[tuple[Device, _Report, _Report, Stream]]:
    """Each report of a device with another health or message than the one before.

    The first one of a stream follows the last one of the streams of the same health API and instance.
    """
    latest: dict[tuple[str, str, Device], _Report] = {}
    reports = (
        (report, device, watched.stream)
        for watched in each
        for device, times in watched.times.items()
        for report in times
    )
    own: dict[tuple[str, Device], _Report] = {}
    for report, device, stream in sorted(reports, key=lambda one: one[0][1]):
        before = own.get((stream.id, device))
        if before is None:  # what was said before the stream was opened
            last = latest.get((stream.api.name, _endpoint(stream), device))
            before = last if last and last[0] < stream.opened.at else None
        own[stream.id, device] = latest[stream.api.name, _endpoint(stream), device] = report
        if before and (before[2].health, before[2].message) != (report[2].health, report[2].message):
            yield device, before, report, stream


def _is_explained(own: Phase | None, before: _Report, after: _Report) -> bool:
    """Whether a change is that of the device itself: it belongs to its last action, or FAULT-16 judges it."""
    if own is None:
        return False
    reacts = not own.is_shown(before[2])
    return not own.is_shown(after[2]) or reacts or before[0] < own.start or after[0] <= own.limit


def _is_near(other: Phase, at: float) -> bool:
    """Whether a change comes with an action on another device: until the last stream has shown the action."""
    shown = [other.first_shown([stream]) for stream in other.streams]
    last = max((one for one in shown if one < float("inf")), default=other.limit)
    return other.start <= at <= max(last, min(other.step.at + IN_FLIGHT, other.limit))


# Each action of the plan is reported.

_Kind = Literal["break", "unknown", "change", "heal"]


def _kind(step: Step) -> _Kind:
    if isinstance(step.what, FaultCleared):
        return "heal"
    if step.what.step == "change":
        return "change"
    return "unknown" if step.what.health == Health.UNKNOWN else "break"


def _planned(requirement: str, kind: _Kind, none: str, fix: str) -> Callable[[Callable[[], None]], None]:
    """Registers a check of all actions of this kind in the plan, and in the experiment `idle`."""

    def register(name: Callable[[], None]) -> None:
        def whole(evidence: Evidence) -> Finding:
            if absent := absence(evidence):
                return not_applicable(absent[0], *absent[1])
            all_ = phases(evidence, PLAN)
            if not all_:
                return not_tested("no fault was caused")
            mine = [one for one in all_ if _kind(one.step) == kind]
            if not mine:
                return static(none, *(one.step.number for one in all_))
            after_idle = phases(evidence, "idle")
            judged = [_graded(one, _reported(one, all_)) for one in mine]
            more = (_graded(one, _reported(one, after_idle)) for one in after_idle if _kind(one.step) == kind)
            judged += (one for one in more if one.verdict is Verdict.FAIL)
            found = worst(judged)
            text = f"{len(judged)} actions were reported in time"
            return replace(found, seen=text) if found.verdict == "PASS" else found

        whole.__name__ = name.__name__
        whole.__doc__ = name.__doc__
        check(requirement, "services", PLAN, fix=fix, reads=("idle",))(whole)

    return register


def _graded(phase: Phase, finding: Finding) -> Finding:
    return replace(finding, grade=phase.grade)


@_planned(
    "FAULT-01",
    "break",
    "each fault makes the health unknown",
    "Watch the health of each device at all times: while a claim is prepared, after a restart, and without API server.",
)
def each_break_is_reported() -> None:
    """Each break of the plan is reported within the settle time."""


@_planned(
    "FAULT-02",
    "heal",
    "no fault of the driver profile can be healed",
    "Watch each broken device until it recovers, and report each recovery, also the second one of the same device.",
)
def each_recovery_is_reported() -> None:
    """Each recovery of the plan is reported within the settle time."""


@_planned(
    "FAULT-03",
    "change",
    "no fault of the driver profile has a change of its cause",
    "Send a report when the message of a device changes, even if the health stays the same.",
)
def each_change_of_a_cause_is_reported() -> None:
    """Each change of a cause in the plan is reported within the settle time."""


@_planned(
    "FAULT-04",
    "unknown",
    "no fault of the driver profile makes the health of a device unknown",
    "Report Unknown if the health cannot be determined, also of a device that was Unhealthy before.",
)
def each_unknown_health_is_reported() -> None:
    """Each device of the plan whose health becomes unknown is reported as Unknown within the settle time."""


def _reported(phase: Phase, all_: Sequence[Phase]) -> Finding:
    """Whether any stream showed an action in time."""
    if problem := failed_adapter(phase.step, str(phase.device)):
        return problem
    able = [one for one in phase.streams if _kind(phase.step) != "change" or "message" in one.stream.api.carries]
    old = _said_in(phase.before if _kind(phase.step) == "change" else None)
    shown = [found for stream in able if (found := _first(phase, stream, old))]
    if in_time := min((one for one in shown if one[0] <= phase.limit), default=None):
        return passed(f"{phase.about}: reported", phase.step.number, in_time[1])
    is_change = _kind(phase.step) == "change"
    what = "reported with another health or message" if is_change else " or ".join(sorted(phase.shows))
    expected = f"{phase.device} is {what} within {phase.step.what.settle:.4g} s (plus {MARGIN:g} s for a busy machine)"
    if shown:
        at, number = min(shown)
        return failed(expected, f"{phase.about}: only after {at - phase.step.at:.1f} s", phase.step.number, number)
    later = [one for stream in able for one in phase.times(stream) if one[0] > phase.limit]
    if not later:
        return not_tested(f"{phase.about}: no stream was open long enough", phase.step.number)
    last = max(later, key=lambda one: one[1])
    seen = f"{phase.about}: still {last[2].health} {last[2].message!r}{possible_cause(phase, all_)}"
    if isinstance(phase.step.what, FaultInjected) and phase.step.what.on_no_effect == "NOT_TESTED":
        return not_tested(seen, phase.step.number, last[1])
    return failed(expected, seen, phase.step.number, last[1])


def _first(phase: Phase, watched: Watched, old: _Said = frozenset()) -> tuple[float, int] | None:
    """When a stream first showed an action."""
    for at, number, one in phase.times(watched):
        if phase.is_shown(one) and (one.health, one.message) not in old:
            return at, number
    return None


# A fault adapter that breaks another device than asked, or does nothing.


def changed_instead(phase: Phase, all_: Sequence[Phase]) -> set[Device]:
    """The other devices that became what the action should have caused, without an action on them."""
    touched = {one.device for one in all_ if one.start <= phase.limit and one.end > phase.start}
    found = set()
    for watched in phase.streams:
        for device, times in watched.times.items():
            before = [one for at, _, one in times if at < phase.start][-1:]
            after = [one for at, _, one in times if phase.start <= at <= phase.limit]
            if before and device not in touched and not phase.is_shown(before[0]) and any(map(phase.is_shown, after)):
                found.add(device)
    return found


def possible_cause(phase: Phase, all_: Sequence[Phase]) -> str:
    """What the fault adapter may have done, if the driver does not report its action."""
    others, fault = changed_instead(phase, all_), phase.step.what.fault
    if _kind(phase.step) == "change" and not others:
        return ""  # the device shows the fault already, and so do the others
    same = [one for one in all_ if one.step.what.fault == fault and one.device != phase.device]
    worked = {one.device for one in same if any(_first(one, stream) for stream in one.streams)}
    return adapter_cause(phase.device, others, worked=worked)
