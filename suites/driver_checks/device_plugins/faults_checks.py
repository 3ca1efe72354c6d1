"""Checks of what a device plugin lists while drahealth breaks its devices: each action, each list, each bystander."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from drahealth.proto.events import FaultCleared, FaultInjected, ListReceived, ProcessStarted
from drahealth.proto.quoting import one_line
from drahealth.proto.values import Health, health_of
from drahealth.suites.driver_checks.check import check
from drahealth.suites.driver_checks.device_plugins.observed import ListStreamSeen, list_streams
from drahealth.suites.driver_checks.evidence import Evidence, Observation
from drahealth.suites.driver_checks.fault_space_checks import recorded_until
from drahealth.suites.driver_checks.observed import Device
from drahealth.suites.driver_checks.observed_health import (
    IN_FLIGHT,
    RECORDED,
    Step,
    adapter_cause,
    began,
    deadline,
    failed_adapter,
    fault_steps_by_device,
)
from drahealth.suites.driver_checks.profile.faults import MARGIN
from drahealth.suites.driver_checks.verdicts import (
    Finding,
    Grade,
    failed,
    not_tested,
    passed,
    static,
    strongest,
    worst,
)

PLAN = "plugin-fault-plan"
_Listed = Observation[ListReceived]

# What was done to each device, and what each list must show until the next action.


@dataclass(frozen=True, slots=True)
class _Phase:
    """From an action on a device until the next one."""

    step: Step
    device: Device
    end: float
    starts: tuple[float, ...]
    """When a new process of the plugin started meanwhile."""
    streams: tuple[ListStreamSeen, ...]
    """Those of the resource, in order. A kubelet has one at a time."""
    before: "_Phase | None"
    """The action before."""
    is_cut: bool = False
    """Whether a process started that need not know the fault, because another process was asked for it."""

    @property
    def start(self) -> float:
        """When the action began."""
        return began(self.step)

    @property
    def limit(self) -> float:
        """When a list must show it. A new process gets the time again."""
        return max(deadline(self.step), *(at + self.step.what.settle + MARGIN for at in self.starts), 0.0)

    @property
    def wanted(self) -> Health:
        """The health in the lists. Device plugins have no other word than Unhealthy for a device with a fault."""
        return Health.HEALTHY if isinstance(self.step.what, FaultCleared) and not self.step.what.shows else _BROKEN

    @property
    def is_done(self) -> bool:
        """Whether the action was done."""
        return self.step.what.outcome == "done"

    @property
    def about(self) -> str:
        """The device and the fault, in words."""
        what = self.step.what
        verb = "cleared" if isinstance(what, FaultCleared) else "caused"
        return f"{one_line(str(self.device))}, fault {what.fault} {verb} by `{what.action}`"

    @property
    def grade(self) -> Grade:
        """How the fault was caused."""
        if isinstance(self.step.what, FaultInjected):
            return self.step.what.grade
        return self.before.grade if self.before else ""

    @property
    def is_steady(self) -> bool:
        """Whether the lists had the health before the action: another fault of the device lasts."""
        before = self.before
        return before is not None and before.is_done and before.wanted is self.wanted and before.is_listed

    @property
    def is_listed(self) -> bool:
        """Whether a list shows the action."""
        return self.is_steady or self.first_shown is not None

    @property
    def first_shown(self) -> _Listed | None:
        """The first list that shows the action."""
        return next((one for one in self.lists if health_in(one, self.device) is self.wanted), None)

    @property
    def lists(self) -> Iterator[_Listed]:
        """The lists until the next action."""
        return (one for stream in self.streams for one in stream.lists if self.start <= one.at < self.end)

    @property
    def due(self) -> float:
        """When a list had to show it: at the limit, or in the first list after it; infinity if no stream was open."""
        open_ = [one for one in self.streams if one.lists and one.lists[0].at <= self.limit]
        if any(one.closed is None or one.closed.at > self.limit for one in open_):
            found = self.limit
        else:
            found = min((one.at for one in self.lists if one.at > self.limit), default=_NEVER)
        return found if found <= self.end else _NEVER

    def is_new_process(self, at: float) -> bool:
        """Whether a process of the plugin has just started, and can still determine the health."""
        return any(start <= at <= start + self.step.what.settle + MARGIN for start in self.starts)


_BROKEN = Health.UNHEALTHY
_NEVER = float("inf")


def health_in(listed: _Listed, device: Device) -> Health | None:
    """The health of a device in a list; None if it is not in the list."""
    return next((health_of(one.health) for one in listed.what.devices if one.id == device.name), None)


def _phases(evidence: Evidence) -> list[_Phase]:
    """All actions on devices, in order for each device."""
    streams = list_streams(evidence, PLAN)
    starts = [one.at for one in evidence.of(ProcessStarted, PLAN)]
    last = max((one.at for one in evidence.records if one.experiment == PLAN), default=0.0)
    found = []
    for device, each in fault_steps_by_device(evidence, PLAN).items():
        mine = tuple(one for one in streams if one.opened.what.driver == device.pool)
        before = None
        for step, later in itertools.zip_longest(each, each[1:]):
            end = began(later) if later else last
            new = tuple(at for at in starts if step.at < at < end)
            before = _Phase(step, device, end, new, mine, before)
            if new and before.grade == "asked":  # a new process may not know it
                before = replace(before, end=new[0], starts=(), is_cut=True)
            found.append(before)
    return found


# Each action is listed.


def _each_listed(evidence: Evidence, wanted: Health, none: str) -> Finding:
    """The worst finding of all actions after which the lists must have this health."""
    all_ = _phases(evidence)
    mine = [one for one in all_ if one.wanted is wanted]
    if not all_:
        return not_tested("no fault was caused")
    if not mine:
        return static(none, *(one.step.number for one in all_))
    cut = [one for one in mine if one.is_cut and not one.is_listed]
    judged = [one for one in mine if one not in cut] or mine
    found = worst([replace(_is_listed(one, all_), grade=one.grade) for one in judged])
    return replace(found, seen=f"{len(mine)} actions were listed in time") if found.verdict == "PASS" else found


def _is_listed(phase: _Phase, all_: Sequence[_Phase]) -> Finding:
    """Whether the lists had an action in time."""
    about, number, shown, due = phase.about, phase.step.number, phase.first_shown, phase.due
    if problem := failed_adapter(phase.step, one_line(str(phase.device))):
        return problem
    if phase.is_steady:  # another check judges whether it stays so
        return passed(f"{about}: still {phase.wanted}", number)
    if phase.before and not phase.before.is_listed:
        return not_tested(f"{about}: the action before was not listed", number)
    if shown and shown.at <= max(due, phase.limit):
        return passed(f"{about}: {phase.wanted} after {max(shown.at - phase.step.at, 0):.1f} s", number, shown.number)
    settle = phase.step.what.settle
    expected = f"{phase.wanted} in a list within {settle:g} s (plus {MARGIN:g} s for a busy machine)"
    if shown:
        return failed(expected, f"{about}: only after {shown.at - phase.step.at:.1f} s", number, shown.number)
    if due == _NEVER:
        return not_tested(f"{about}: the lists were not read long enough", number)
    last = [one for stream in phase.streams for one in stream.lists if one.at <= due][-1:]
    state = health_in(last[0], phase.device) if last else None
    seen = f"{about}: {state or 'not'} in the last list{_possible_cause(phase, all_)}"
    records = (number, *(one.number for one in last))
    if isinstance(phase.step.what, FaultInjected) and phase.step.what.on_no_effect == "NOT_TESTED":
        return not_tested(seen, *records)
    return failed(expected, seen, *records)


def _possible_cause(phase: _Phase, all_: Sequence[_Phase]) -> str:
    """What the fault adapter may have done, if the plugin does not list its action."""
    touched = {one.device for one in all_ if one.start <= phase.limit and one.end > phase.start}
    before = [one for stream in phase.streams for one in stream.lists if one.at < phase.start][-1:]
    names = {Device(phase.device.pool, device.id) for one in before for device in one.what.devices} - touched
    instead = {
        name
        for name in names
        if health_in(before[0], name) is not phase.wanted
        and any(health_in(one, name) is phase.wanted for one in phase.lists)
    }
    same = [one for one in all_ if one.step.what.fault == phase.step.what.fault and one.device != phase.device]
    return adapter_cause(phase.device, instead, worked={one.device for one in same if one.first_shown})


@check(
    "DEVPLUGIN-25",
    PLAN,
    fix="Watch the health of all devices at all times: also of allocated devices, and after a restart of the kubelet. "
    "When it changes, send the list of all devices.",
)
def broken_device_is_listed_unhealthy(evidence: Evidence) -> Finding:
    """After each break a list has the device as Unhealthy within the settle time."""
    return _each_listed(evidence, _BROKEN, "no device was broken")


@check(
    "DEVPLUGIN-26",
    PLAN,
    fix="Watch a broken device until it recovers. When it is healthy, send the list of all devices.",
)
def healed_device_is_listed_healthy(evidence: Evidence) -> Finding:
    """After each heal a list has the device as Healthy within the settle time."""
    return _each_listed(evidence, Health.HEALTHY, "no fault was cleared")


# Each list agrees with the last action.


@check(
    "DEVPLUGIN-37",
    PLAN,
    fix="Keep the health of each device in one place, and make each list from it. Keep it when a stream ends, and when "
    "the plugin registers again.",
)
def lists_agree_while_a_fault_lasts(evidence: Evidence) -> Finding:
    """After a list has shown an action, each list shows it until the next action on the device."""
    found, over = [one for one in _phases(evidence) if one.is_done], recorded_until(evidence, PLAN)
    judged = 0
    for phase in found:
        later = [one for one in _later_lists(phase) if one.at < over]
        judged += len(later)
        if listed := _contradiction(phase, later, found):
            health = health_in(listed, phase.device)
            state = f"is {health}" if health else "is not in the list"
            first = " in the first list of a stream" if any(one.lists[:1] == [listed] for one in phase.streams) else ""
            seen = f"{phase.about}: the device {state}{first}, {listed.at - phase.step.at:.1f} s later"
            return failed(f"{phase.wanted} in each list", seen, phase.step.number, listed.number)
    if not found:
        return not_tested("no fault was caused")
    if not judged:
        return static("no list came while a fault lasted", *(one.step.number for one in found))
    text = f"{judged} later lists agree after {len(found)} actions"
    return replace(passed(text, *(one.step.number for one in found)), grade=strongest(one.grade for one in found))


def _later_lists(phase: _Phase) -> Iterator[_Listed]:
    """The lists after the first one that shows the action."""
    shown = -_NEVER if phase.is_steady else (one.at if (one := phase.first_shown) else _NEVER)
    for one in phase.lists:
        if shown < one.at < phase.end - RECORDED and not phase.is_new_process(one.at):
            yield one


def _contradiction(phase: _Phase, later: Sequence[_Listed], all_: Sequence[_Phase]) -> _Listed | None:
    """The first list that says otherwise. A healthy device that changes with another one is a bystander."""
    is_bystander = False
    for before, one in itertools.pairwise([None, *later]):
        assert one
        if health_in(one, phase.device) is phase.wanted:
            continue
        if before is None or health_in(before, phase.device) is phase.wanted:
            is_bystander = phase.wanted is Health.HEALTHY and _cause(phase.device, one.at, all_) is not None
        if not is_bystander:
            return one
    return None


# Other devices.


@check("DEVPLUGIN-27", PLAN, fix="Do not change the health of the other devices, and list all devices.")
def other_devices_stay_as_they_are(evidence: Evidence) -> Finding:
    """No list changes a device, or leaves it out, because of what happens to another one."""
    found, over = _phases(evidence), recorded_until(evidence, PLAN)
    starts = [one.at for one in evidence.of(ProcessStarted, PLAN)]
    seen: set[Device] = set()
    streams = list_streams(evidence, PLAN)
    for before, after in _pairs(streams):
        devices = [Device(before.what.driver, one.id) for one in before.what.devices]
        seen.update(devices)
        if after.at >= over or any(before.at < at <= after.at for at in starts):
            continue  # an action is not recorded, or another process made the list
        for device in devices:
            old, new = health_in(before, device), health_in(after, device)
            if old is new or _is_own(device, new, after.at, found):
                continue
            start = max((at for at in starts if at <= after.at), default=0.0)
            if new is Health.HEALTHY and _is_starting(device, start, before, streams):
                continue  # a plugin that starts has not determined the health yet
            if cause := _cause(device, after.at, found):
                hint = adapter_cause(cause.device, {device}, shown=cause.is_listed)
                text = f"{one_line(str(device))}: {new or 'not in the list'}, when {cause.about}{hint}"
                expected = f"{one_line(str(device))} stays {old}"
                return failed(expected, text, cause.step.number, before.number, after.number)
    if not found:
        return not_tested("no fault was caused")
    if not any(one.is_done and one.is_listed for one in found if one.wanted is _BROKEN):
        return not_tested("no break was listed", *(one.step.number for one in found))
    if len(seen) < 2:
        return static("the plugin lists one device", found[0].step.number)
    text = f"the other ones of {len(seen)} devices stayed as they were during {len(found)} actions"
    return replace(passed(text, *(one.step.number for one in found)), grade=strongest(one.grade for one in found))


def _pairs(streams: Sequence[ListStreamSeen]) -> Iterator[tuple[_Listed, _Listed]]:
    """Each list with the next one of its resource, also of the next stream."""
    by_resource: dict[str, list[_Listed]] = {}
    for stream in streams:
        by_resource.setdefault(stream.opened.what.driver, []).extend(stream.lists)
    for lists in by_resource.values():
        yield from itertools.pairwise(lists)


def _is_own(device: Device, new: Health | None, at: float, found: Sequence[_Phase]) -> bool:
    """Whether a change belongs to the last action on the device, or is judged as a list that contradicts it."""
    own = (one for one in found if one.device == device and one.start - RECORDED <= at <= one.end)
    return any(not one.is_done or new is one.wanted or one.wanted is _BROKEN for one in own)


def _is_starting(device: Device, start: float, until: _Listed, streams: Sequence[ListStreamSeen]) -> bool:
    """Whether a process that started then has not listed a device as Healthy, up to this list."""
    mine = (one for stream in streams if stream.opened.what.driver == device.pool for one in stream.lists)
    lists = (one for one in mine if start <= one.at <= until.at)
    return all(health_in(one, device) is not Health.HEALTHY for one in lists)


def _cause(device: Device, at: float, found: Sequence[_Phase]) -> _Phase | None:
    """The action on another device that a list at this time comes with: until a list has shown the action."""
    for other in found:
        shown = one.at if (one := other.first_shown) and not other.is_steady else other.limit
        last = max(shown, min(other.step.at + IN_FLIGHT, other.limit))
        if other.device.name != device.name and other.start - RECORDED <= at <= last:
            return other
    return None
