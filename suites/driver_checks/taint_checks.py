"""Checks of device taints (KEP-5055), which tell the scheduler of broken devices."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import dropwhile, pairwise
from typing import Any, NamedTuple

from drahealth.proto.events import (
    ApiServerSwitched,
    FaultCleared,
    FaultInjected,
    ProcessStarted,
    SliceChanged,
    SlicesListed,
)
from drahealth.proto.values import Health
from drahealth.suites.driver_checks.check import check
from drahealth.suites.driver_checks.evidence import Evidence
from drahealth.suites.driver_checks.experiments import EXPERIMENTS
from drahealth.suites.driver_checks.fault_space_checks import PLAN, Phase, phases
from drahealth.suites.driver_checks.fault_space_checks import possible_cause as causes_in_plan
from drahealth.suites.driver_checks.faults_checks import is_reported, possible_cause
from drahealth.suites.driver_checks.observed import (
    PUBLISH_LIMIT,
    Device,
    devices_of,
    driver_name,
    is_of,
    sequence,
    slice_name,
    text,
)
from drahealth.suites.driver_checks.observed_health import (
    RECORDED,
    Episode,
    Step,
    acted_on,
    adapter_cause,
    arrivals,
    began,
    deadline,
    episodes,
    failed_adapter,
    fault_steps,
    streams,
)
from drahealth.suites.driver_checks.profile.faults import MARGIN
from drahealth.suites.driver_checks.slice_writes import all_writes, are_complete, pool_number
from drahealth.suites.driver_checks.verdicts import Finding, failed, not_applicable, not_tested, passed, worst

# What the ResourceSlices of the driver say of taints, over time. Pure.

_RESTART = "fault-over-restart"
_FAULTS = tuple(name for name, one in EXPERIMENTS.items() if "fault" in one.needs and one.subject == "dra-driver")
"""The experiments with faults."""


class Taint(NamedTuple):
    """A taint without its time."""

    key: str
    value: str
    effect: str

    @classmethod
    def declared(cls, written: str) -> "Taint":
        """The taint of a fault, as the evidence has it."""
        name, _, effect = written.rpartition(":")
        key, _, value = name.partition("=")
        return cls(key, value, effect)

    def is_met_by(self, other: "Taint") -> bool:
        """Whether a published taint is the declared one; a declared taint without a value allows any value."""
        return (self.key, self.effect) == (other.key, other.effect) and self.value in ("", other.value)

    def __str__(self) -> str:
        return f"{self.key}{f'={self.value}' if self.value else ''}:{self.effect}"


Times = Mapping[Taint, str]
"""`timeAdded` of the taints of a device."""


@dataclass(frozen=True, slots=True)
class _State:
    """The published taints since a record."""

    at: float
    number: int
    devices: Mapping[Device, Times]
    """All published devices."""

    def meets(self, device: Device, declared: Taint) -> bool:
        return any(map(declared.is_met_by, self.devices.get(device, ())))

    def shown(self, device: Device) -> str:
        if device not in self.devices:
            return "is not published"
        return f"has {', '.join(map(str, self.devices[device])) or 'no taint'}"


def _states(evidence: Evidence, *experiments: str) -> list[_State]:
    """The published taints after each change of the ResourceSlices. A pool has the devices of its newest generation."""
    driver, slices, found = driver_name(evidence), dict[str, Any](), list[_State]()
    for record in evidence.records:
        if record.experiment not in experiments:
            continue
        match record.what:
            case SlicesListed(listed):
                slices = {slice_name(one): one for one in listed if is_of(one, driver)}
            case SliceChanged("DELETED", one) if is_of(one, driver):
                slices.pop(slice_name(one), None)
            case SliceChanged(_, one) if is_of(one, driver):
                slices[slice_name(one)] = one
            case _:
                continue
        found.append(_State(record.at, record.number, _taints(slices.values())))
    return found


def _taints(slices: Any) -> dict[Device, Times]:
    found: dict[Device, Times] = {}
    for one in sorted(slices, key=lambda one: pool_number(one, "generation")):
        for device, published in devices_of(one).items():
            taints = sequence(published, "taints")
            found[device] = {
                Taint(text(each, "key"), text(each, "value"), text(each, "effect")): text(each, "timeAdded")
                for each in taints
            }
    return found


def _before(states: list[_State], time: float) -> _State | None:
    """The state at a time."""
    return next((one for one in reversed(states) if one.at <= time), None)


def _published(evidence: Evidence) -> dict[Taint, tuple[Device, int]]:
    """Each taint that the driver ever published, with the first device and the record."""
    found: dict[Taint, tuple[Device, int]] = {}
    for state in _states(evidence, "slices", *_FAULTS):
        for device, times in state.devices.items():
            for taint in times:
                found.setdefault(taint, (device, state.number))
    return found


def _without_taints(evidence: Evidence, *experiments: str) -> Finding:
    """The finding on a driver that published no taint; not tested, if its ResourceSlices were not listed."""
    if evidence.header.api_server == "none":
        return not_applicable("the driver has no API server")
    states = _states(evidence, *experiments)
    if not states:
        return not_tested("the ResourceSlices of the driver were not listed")
    return not_applicable("the driver published no taint", states[0].number)


# Checks of the taint that the driver profile declares for a fault.

Judge = Callable[[Episode, Taint, list[_State]], Finding | None]


def _declared(requirement: str, experiment: str, fix: str) -> Callable[[Judge], Judge]:
    """Registers a check of each fault of the experiment that declares a taint."""

    def register(judge: Judge) -> Judge:
        def whole(evidence: Evidence) -> Finding:
            found = list(episodes(evidence, experiment))
            if not found:
                return not_tested("no fault was caused")
            if evidence.header.api_server == "none":
                return not_applicable("the driver has no API server")
            mine = [one for one in found if one.broken.what.taint]
            if not mine:
                return not_applicable(f"no fault declares a taint{_undeclared(evidence)}", found[0].broken.number)
            states = _states(evidence, experiment)
            if not states:
                return not_tested("the ResourceSlices of the driver were not listed", mine[0].broken.number)
            judged = [
                replace(finding, grade=one.broken.what.grade)
                for one in mine
                if (finding := judge(one, Taint.declared(one.broken.what.taint), states))
            ]
            if not judged:
                return not_applicable("no fault with a taint has this step", mine[0].broken.number)
            return worst(judged)

        whole.__name__ = judge.__name__
        check(requirement, experiment, fix=fix)(whole)
        return judge

    return register


def _undeclared(evidence: Evidence) -> str:
    """A note of the taints that the driver publishes all the same."""
    found = _published(evidence)
    each = (f"{device} with {taint}" for taint, (device, _) in found.items())
    return f"; the driver taints {', '.join(each)}: declare it with `taint`" if found else ""


def _judged(episode: Episode, step: Step, states: list[_State], what: str, wanted: Callable[[_State], bool]) -> Finding:
    """Whether the ResourceSlices show the effect of a step in time."""
    about = f"{episode.device}, fault {step.what.fault}"
    if problem := failed_adapter(step, about):
        return problem
    before = _before(states, began(step))
    later = [one for one in states if began(step) < one.at < episode.end]
    shown = next((one for one in ([before] if before else []) + later if wanted(one)), None)
    if shown and shown.at <= deadline(step):
        return passed(f"{about}: {what} after {max(shown.at - step.at, 0.0):.1f} s", step.number, shown.number)
    due = _before(states, deadline(step))
    if due is None or not any(one.at > deadline(step) for one in states):
        return not_tested(f"{about}: the ResourceSlices were not watched long enough", step.number)
    seen = f"{about}: `{step.what.action}` was done, and the device {due.shown(episode.device)}"
    seen = f"{about}: {what} only after {shown.at - step.at:.1f} s" if shown else seen
    expected = f"{what} within {step.what.settle:.4g} s (plus {MARGIN:g} s for a busy machine)"
    return failed(expected, seen, step.number, (shown or due).number)


def _left(
    states: list[_State], shown: Finding, until: float, device: Device, wanted: Callable[[_State], bool]
) -> _State | None:
    """The first state after the one that showed the effect, and before a time, in which it is gone."""
    later = [one for one in states if one.number > shown.records[-1] and one.at < until - RECORDED]
    return next((one for one in later if device in one.devices and not wanted(one)), None)


def _not_kept(about: str, expected: str, device: Device, gone: _State) -> Finding:
    return failed(f"{device} {expected} until the next action", f"{about}: it {gone.shown(device)} later", gone.number)


@_declared(
    "TAINT-01",
    "faults",
    fix="When a device breaks, publish its ResourceSlice again, with a taint of the declared key and effect.",
)
def broken_device_is_tainted(episode: Episode, declared: Taint, states: list[_State]) -> Finding | None:
    """After the break the device has the declared taint within the settle time, and keeps it until it recovers."""
    broken = episode.broken
    tainted = partial(_State.meets, device=episode.device, declared=declared)
    found = _judged(episode, broken, states, f"tainted with {declared}", tainted)
    if found.verdict == "FAIL" and not is_reported(episode):
        found = replace(found, seen=f"{found.seen}{possible_cause(episode, broken)}")
    if found.verdict == "FAIL" and broken.what.on_no_effect == "NOT_TESTED":
        return not_tested(found.seen, *found.records)
    if found.verdict != "PASS":
        return found
    until = began(next((step for step in (episode.changed, episode.healed) if step), None) or broken)
    if gone := _left(states, found, until, episode.device, tainted):
        return _not_kept(f"{episode.device}, fault {broken.what.fault}", f"has {declared}", episode.device, gone)
    shown = {taint for one in states if one.at >= began(broken) for taint in one.devices.get(episode.device, ())}
    more = ", ".join(sorted(str(taint) for taint in shown if not declared.is_met_by(taint)))
    return replace(found, seen=f"{found.seen}; also {more}, which no fault declares") if more else found


@_declared(
    "TAINT-06",
    "faults",
    fix="When a device recovers, publish its ResourceSlice again without the taint.",
)
def taint_is_removed_after_recovery(episode: Episode, declared: Taint, states: list[_State]) -> Finding | None:
    """After the heal the device does not have the declared taint, within the settle time."""
    healed = episode.healed
    if healed is None:
        return None
    before = [one for one in states if one.at < healed.at]
    if not any(one.meets(episode.device, declared) for one in before if one.at >= began(episode.broken)):
        return not_tested(f"{episode.device}: the taint was not published", episode.broken.number)

    def wanted(one: _State) -> bool:
        return episode.device in one.devices and not one.meets(episode.device, declared)

    return _judged(episode, healed, states, f"published without {declared}", wanted)


@_declared(
    "TAINT-04",
    _RESTART,
    fix="At the start of the driver, determine the health of all devices before the first ResourceSlice is published.",
)
def taint_returns_after_a_restart(episode: Episode, declared: Taint, states: list[_State]) -> Finding | None:
    """When the fault is cleared after the restart, the device still has the declared taint, or has it again."""
    if not (healed := episode.healed):
        return None
    if not any(one.meets(episode.device, declared) for one in states if one.at < began(healed)):
        return not_tested(f"{episode.device}: the taint was not published before the restart", episode.broken.number)
    last = _before(states, began(healed))
    assert last
    if last.meets(episode.device, declared):
        return passed(f"{episode.device} has {declared} after the restart", episode.broken.number, last.number)
    seen = f"{episode.device} {last.shown(episode.device)}"
    return failed(f"{episode.device} has {declared} after the restart", seen, episode.broken.number, last.number)


@check(
    "TAINT-05",
    _RESTART,
    fix="At the start of the driver, do not publish a broken device without its taint. Copy `timeAdded` from the "
    "ResourceSlice that exists, as the Go package resourceslice does.",
)
def taint_keeps_its_time_over_a_restart(evidence: Evidence) -> Finding:
    """A taint has the same `timeAdded` before and after a restart of the driver."""
    states, compared = _states(evidence, _RESTART), 0
    heals = list(evidence.of(FaultCleared, _RESTART))
    for start in evidence.of(ProcessStarted, _RESTART):
        end = next((began(one) for one in heals if one.at > start.at), float("inf"))
        before, after = _before(states, start.at), _before(states, end)
        if before is None or after is None:
            continue
        for device, times in before.devices.items():
            for taint in times.keys() & after.devices.get(device, {}).keys():
                compared += 1
                if finding := _other_time(device, taint, before, after):
                    return finding
    if compared:
        return passed(f"timeAdded of {compared} taints stayed the same", states[0].number, states[-1].number)
    if any(one.devices[device] for one in states for device in one.devices):
        return not_applicable("no taint was published before and after a restart", states[0].number)
    return _without_taints(evidence, _RESTART)


# The same for each device in the plan of faults.


class _Due(NamedTuple):
    """An action of the plan after which a device must have a taint, or must no longer have it."""

    phase: Phase
    taint: Taint
    has: bool

    @property
    def words(self) -> str:
        return f"{'has' if self.has else 'does not have'} {self.taint}"

    def is_met(self, state: _State) -> bool:
        device = self.phase.device
        return device in state.devices and state.meets(device, self.taint) is self.has


def _due(evidence: Evidence, experiment: str) -> Iterator[_Due]:
    """Each break of a healthy device, and each recovery. A device with two faults can have one taint for both."""
    lasting: dict[Device, dict[str, str]] = {}
    for phase in sorted(phases(evidence, experiment), key=lambda one: one.step.number):
        mine, what = lasting.setdefault(phase.device, {}), phase.step.what
        if isinstance(what, FaultInjected):
            mine[what.fault] = what.taint
            if what.taint and what.step == "break" and len(mine) == 1:
                yield _Due(phase, Taint.declared(what.taint), has=True)
        elif (taint := mine.pop(what.fault, "")) and not mine:
            yield _Due(phase, Taint.declared(taint), has=False)


def _in_plan(evidence: Evidence, *, has: bool) -> Finding:
    """Whether the ResourceSlices show each break, or each recovery, of the plan and after an idle time, in time."""
    all_ = phases(evidence, PLAN)
    if not all_:
        return not_tested("no fault was caused")
    if evidence.header.api_server == "none":
        return not_applicable("the driver has no API server")
    mine = [one for one in _due(evidence, PLAN) if one.has is has]
    if not mine:
        return not_applicable("no fault of the plan declares a taint", all_[0].step.number)
    if not _states(evidence, PLAN):
        return not_tested("the ResourceSlices of the driver were not listed", mine[0].phase.step.number)
    found = [one for name in (PLAN, "idle") for one in _followed(evidence, name, has=has)]
    if not found:
        return not_tested("each action was followed too early by the next one", mine[0].phase.step.number)
    whole = worst(found)
    text = f"{len(found)} actions: the ResourceSlices followed in time"
    return replace(whole, seen=text) if whole.verdict == "PASS" else whole


def _followed(evidence: Evidence, experiment: str, *, has: bool) -> Iterator[Finding]:
    """The finding on each break, or each recovery, of an experiment that is not left open."""
    states, all_ = _states(evidence, experiment), phases(evidence, experiment)
    if not states:
        return
    starts = [one.at for one in evidence.of(ProcessStarted, experiment)]
    switches = [(one.at, one.what.reachable) for one in evidence.of(ApiServerSwitched, experiment)]
    later = _may_be_later(states, starts, switches)
    for one in _due(evidence, experiment):
        if one.has is has and (finding := _shown_in_plan(one, states, starts, later(one), all_)):
            yield replace(finding, grade=one.phase.grade)


def _may_be_later(
    states: list[_State], starts: list[float], switches: list[tuple[float, bool]]
) -> Callable[[_Due], bool]:
    """Whether the driver cannot publish in time: it has no API server, or started and has not published yet."""

    def later(due: _Due) -> bool:
        start, limit = due.phase.start, due.phase.limit
        before = [reachable for at, reachable in switches if at <= start][-1:]
        if before == [False] or any(start < at <= limit for at, _ in switches):
            return True
        young = [at for at in starts if at <= start < at + PUBLISH_LIMIT]
        return bool(young) and not any(young[-1] < one.at <= start for one in states)

    return later


def _answers(due: _Due, states: list[_State]) -> list[_State]:
    """The states that can answer an action, without the late answer to the action before.

    A device that recovers soon can be tainted only afterwards, as long as the settle time of the break lasts.
    """
    before = due.phase.before
    contrary = list(dropwhile(due.is_met, states))
    if before is None or not contrary or contrary == states or contrary[0].at > before.limit:
        return states
    return list(dropwhile(lambda one: one.at <= before.limit and not due.is_met(one), contrary))


def _shown_in_plan(
    due: _Due, states: list[_State], starts: list[float], later: bool, all_: list[Phase]
) -> Finding | None:
    """The finding on one action; None if the next one, or a driver that may be late, leaves it open."""
    phase = due.phase
    if problem := failed_adapter(phase.step, str(phase.device)):
        return problem
    before = _before(states, phase.start)
    mine = [*([before] if before else []), *(one for one in states if phase.start < one.at < phase.end)]
    shown = next((one for one in _answers(due, mine) if due.is_met(one)), None)
    if shown and shown.at <= phase.limit:
        found = passed(phase.about, phase.step.number, shown.number)
        until = min([phase.end, *(at for at in starts if at > phase.start)])
        gone = _left(mine, found, until, phase.device, due.is_met)
        return _not_kept(phase.about, due.words, phase.device, gone) if gone else found
    proof = next((one for one in states if one.at > phase.limit), None)
    if later or phase.end <= phase.limit or proof is None:
        return None
    last = _before(states, phase.limit) or proof
    if isinstance(phase.step.what, FaultInjected) and phase.step.what.on_no_effect == "NOT_TESTED":
        return not_tested(f"{phase.about}: it {last.shown(phase.device)}", phase.step.number, last.number)
    is_silent = any(map(phase.times, phase.streams)) and phase.first_shown(phase.streams) == float("inf")
    hint = causes_in_plan(phase, all_) if is_silent else ""
    seen = f"only after {shown.at - phase.step.at:.1f} s" if shown else f"it {last.shown(phase.device)}{hint}"
    limit = f"{phase.step.what.settle:.4g} s (plus {MARGIN:g} s for a busy machine)"
    expected = f"{phase.device} {due.words} within {limit}"
    return failed(expected, f"{phase.about}: {seen}", phase.step.number, last.number)


@check(
    "TAINT-01",
    PLAN,
    fix="Taint each device that is broken, also if another device breaks at the same time.",
    reads=("idle",),
)
def each_broken_device_is_tainted(evidence: Evidence) -> Finding:
    """Each device that breaks in the plan has the declared taint within the settle time, until the next action."""
    return _in_plan(evidence, has=True)


@check(
    "TAINT-06",
    PLAN,
    fix="Remove the taint of each device that has recovered, also if another device breaks at the same time.",
    reads=("idle",),
)
def each_taint_is_removed(evidence: Evidence) -> Finding:
    """Each device that recovers in the plan has the declared taint no longer, within the settle time."""
    return _in_plan(evidence, has=False)


# Checks of all taints that the driver publishes.


@check(
    "TAINT-03",
    "slices",
    fix="Copy `timeAdded` of a taint from the ResourceSlice that exists, as the Go package resourceslice does. "
    "Without it, the API server sets a new time at each update.",
    reads=_FAULTS,
)
def taint_keeps_its_time(evidence: Evidence) -> Finding:
    """As long as a taint lasts, and the driver runs, `timeAdded` does not change."""
    seen = list[int]()
    for name in ("slices", *_FAULTS):
        starts = [one.at for one in evidence.of(ProcessStarted, name)]
        heals = [(acted_on(one), one.at) for one in evidence.of(FaultCleared, name)]
        for before, after in pairwise(_states(evidence, name)):
            if any(before.at < start <= after.at for start in starts):
                continue
            for device, times in after.devices.items():
                if any(one == device and before.at < time <= after.at for one, time in heals):
                    continue  # the next fault can have the same taint
                for taint in times.keys() & before.devices.get(device, {}).keys():
                    seen += [after.number]
                    if finding := _other_time(device, taint, before, after):
                        return finding
            seen += [after.number for times in after.devices.values() if times]
    if not seen:
        return _without_taints(evidence, "slices", *_FAULTS)
    return passed("timeAdded of each taint stayed the same", *dict.fromkeys(seen[:10]))


def _other_time(device: Device, taint: Taint, before: _State, after: _State) -> Finding | None:
    """The violation that a taint got another time."""
    old, new = before.devices[device][taint], after.devices[device][taint]
    if old == new:
        return None
    return failed(f"{taint} of {device} keeps timeAdded {old}", f"timeAdded is {new}", before.number, after.number)


@check(
    "TAINT-02",
    "faults",
    fix="Change only the taints of the broken device.",
    reads=_FAULTS,
)
def fault_leaves_other_taints_alone(evidence: Evidence) -> Finding:
    """From a break to its end no device changes its taints that no fault adapter acts on at that time."""
    tainted = list[int]()
    for name in _FAULTS:
        acts = fault_steps(evidence, name)
        for before, after in pairwise(_states(evidence, name)):
            cause = next((act for act in reversed(acts) if began(act) <= after.at), None)
            if cause is None:
                continue
            tainted += [after.number for times in after.devices.values() if times]
            for device in before.devices.keys() & after.devices.keys():
                old, new = before.devices[device].keys(), after.devices[device].keys()
                if old != new and not _may_change(acts, device, after.at, only_less=new < old):
                    hint = (
                        adapter_cause(acted_on(cause), {device}, shown=True)
                        if _is_sick(evidence, device, cause)
                        else ""
                    )
                    seen = f"{device} {after.shown(device)}, after `{cause.what.action}` for {acted_on(cause)}{hint}"
                    return failed(f"{device} {before.shown(device)}", seen, cause.number, after.number)
    if not tainted:
        return _without_taints(evidence, *_FAULTS)
    return passed("only devices that were broken or healed changed their taints", *dict.fromkeys(tainted[:10]))


def _is_sick(evidence: Evidence, device: Device, step: Step) -> bool:
    """Whether the driver reports this device as not healthy, too, after an action on another one."""
    times = (one for stream in streams(evidence, step.experiment) for one in arrivals(stream).get(device, []))
    return any(began(step) <= at <= deadline(step) and one.health is not Health.HEALTHY for at, _, one in times)


def _may_change(acts: list[Step], device: Device, time: float, *, only_less: bool) -> bool:
    """Whether the taints of a device may change: it is broken, or was healed a short time ago.

    TAINT-06 judges taints that are removed late.
    """
    mine = [one for one in acts if acted_on(one) == device and began(one) <= time]
    return bool(mine) and (only_less or isinstance(mine[-1].what, FaultInjected) or time <= deadline(mine[-1]))


@check(
    "TAINT-07",
    "faults",
    fix="Publish a ResourceSlice only when a taint, or another property of a device, has changed.",
    reads=_FAULTS,
)
def slices_do_not_churn_during_a_fault(evidence: Evidence) -> Finding:
    """No ResourceSlice is written with the same content, unless another one of its pool changes; pools are complete."""
    writes = all_writes(evidence, _FAULTS)
    for one in writes:
        if one.same and not one.with_pool:
            expected = f"no write of {slice_name(one.record.what.slice)} while its devices do not change"
            seen = f"experiment {one.record.experiment}: it was written again with the same content"
            return failed(expected, seen, one.record.number)
    lists = list(evidence.of(SlicesListed, "faults"))  # only here the last list waits until the pools are complete
    mine = [one for one in lists[-1].what.slices if is_of(one, driver_name(evidence))] if lists else []
    if not mine:
        return _without_taints(evidence, "faults")
    if not are_complete(mine):
        seen = "a pool does not have all ResourceSlices of its newest generation"
        return failed("each pool is complete after the faults", seen, lists[-1].number)
    return passed(f"each of {len(writes)} writes changed a device or its pool", lists[-1].number)


@check(
    "TAINT-08",
    "faults",
    fix="If the changed taints are in one ResourceSlice, write only this ResourceSlice, with the generation that it "
    "has. Group devices that break together in one ResourceSlice.",
    reads=_FAULTS,
)
def taint_changes_only_its_slice(evidence: Evidence) -> Finding:
    """No ResourceSlice gets a new generation only because a taint in another one changes.

    Experiments that break several devices at the same time do not count: a driver may need two writes for two slices.
    """
    writes = all_writes(evidence, (name for name in _FAULTS if name not in (PLAN, "idle")))
    for one in writes:
        if one.same and one.with_pool and one.for_taints:
            name = slice_name(one.record.what.slice)
            seen = f"experiment {one.record.experiment}: {name} was written with a new generation and the same devices"
            return failed(f"no write of {name}, whose devices do not change", seen, one.record.number)
    if not writes and not _states(evidence, *_FAULTS):
        return _without_taints(evidence, *_FAULTS)
    if not writes:
        return not_applicable("the driver wrote no ResourceSlice because of a fault")
    return passed(f"each of {len(writes)} writes changed a device", *(one.record.number for one in writes[:10]))


@check(
    "TAINT-09",
    "slices",
    fix="Use a domain of the vendor in the key, for example the name of the driver.",
    reads=_FAULTS,
)
def taint_key_has_a_domain_of_the_vendor(evidence: Evidence) -> Finding:
    """The key of each taint has a domain that is not one of Kubernetes."""
    found = _published(evidence)
    for taint, (device, record) in found.items():
        domain = taint.key.rpartition("/")[0]
        if not domain or domain in _RESERVED or domain.endswith(tuple(f".{one}" for one in _RESERVED)):
            expected = "a key with a domain of the vendor, such as gpu.example.com/unhealthy"
            return failed(expected, f"{device} has {taint}", record)
    if not found:
        return _without_taints(evidence, "slices", *_FAULTS)
    records = (record for _, record in found.values())
    return passed(f"keys: {', '.join(sorted({taint.key for taint in found}))}", *records)


_RESERVED = ("kubernetes.io", "k8s.io")
"""Domains of Kubernetes, with their subdomains."""
