"""Checks of what a driver reports while drahealth breaks, changes and heals a device."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from drahealth.proto.events import FaultInjected
from drahealth.proto.values import Health
from drahealth.suites.checking.checks.registry import check
from drahealth.suites.checking.evidence import Evidence
from drahealth.suites.checking.faults import MARGIN
from drahealth.suites.checking.observed.faults import (
    Episode,
    Step,
    Wanted,
    began,
    deadline,
    episodes,
    failed_adapter,
    shows_heal,
)
from drahealth.suites.checking.observed.processes import crashes
from drahealth.suites.checking.observed.streams import absence, arrivals
from drahealth.suites.checking.output_text import exit_text
from drahealth.suites.checking.verdicts import (
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

FaultJudge = Callable[[Episode], Finding | None]
"""Judges one fault; None if it does not show anything of the requirement."""


def fault_check(requirement: str, *experiments: str, fix: str, none: str = "") -> Callable[[FaultJudge], FaultJudge]:
    """Registers the function as a check of each fault of the experiments; the worst finding counts.

    Without a fault that shows anything it is STATIC with the reason `none`.
    """

    def register(judge: FaultJudge) -> FaultJudge:
        def whole(evidence: Evidence) -> Finding:
            if absent := absence(evidence):
                return not_applicable(absent[0], *absent[1])
            found = list(episodes(evidence, *experiments))
            judged = [
                replace(finding, grade=episode.broken.what.grade) for episode in found if (finding := judge(episode))
            ]
            if not found:
                return not_tested("no fault was caused")
            return worst(judged) if judged else static(none, *(one.broken.number for one in found))

        whole.__name__ = judge.__name__
        check(requirement, "services", *experiments, fix=fix)(whole)
        return judge

    return register


def judged_step(episode: Episode, step: Step, wanted: Wanted, what: str, *, unseen: str = "FAIL") -> Finding:
    """Whether any stream showed a step in time; `unseen` is the verdict if none did."""
    about = f"{episode.device}, fault {step.what.fault} ({episode.broken.what.grade})"
    if problem := failed_adapter(step, about):
        return problem
    best = episode.best(step, wanted)
    if best is None or best.outcome == "unproven":
        return not_tested(f"{about}: no stream was open long enough", step.number)
    if best.outcome == "in time":
        return passed(f"{about}: {what} after {best.seconds:.1f} s", step.number, best.record)
    records = (step.number, *filter(None, (best.record,)))
    seen = (
        f"{about}: {what} only after {best.seconds:.1f} s"
        if best.outcome == "late"
        else _unseen(episode, step, about, what)
    )
    expected = f"{what} within {step.what.settle:.4g} s (plus {MARGIN:g} s for a busy machine)"
    if best.outcome == "never" and unseen == "NOT_TESTED":
        return not_tested(seen, *records)
    return failed(expected, seen, *records)


def _unseen(episode: Episode, step: Step, about: str, what: str) -> str:
    last = [times[-1] for stream in episode.streams if (times := arrivals(stream).get(episode.device))]
    state = max(last, key=lambda one: one[0])[2] if last else None
    message = f" {state.message!r}" if state and state.message else ""
    said = f"; the last report has {state.health}{message}" if state else ""
    return f"{about}: `{step.what.action}` was done, but the device was not {what}{said}"


def is_reported(episode: Episode) -> bool:
    """Whether the break was shown at all, so that what follows can be judged."""
    best = episode.best(episode.broken, episode.shows_break) if episode.broken.what.outcome == "done" else None
    return best is not None and best.outcome in ("in time", "late")


@fault_check(
    "FAULT-01",
    "faults",
    none="each fault makes the health unknown",
    fix="Check that the action `break` has an effect on the device. For example, if the action changes a file, the "
    "path of the file must be right. Watch the health of the hardware. As soon as it changes, send a report on all "
    "streams.",
)
def break_is_reported(episode: Episode) -> Finding | None:
    """After the break a report has the declared health within the settle time."""
    broken = episode.broken
    if broken.what.health == Health.UNKNOWN:
        return None
    what = f"reported as {broken.what.health}"
    return judged_step(episode, broken, episode.shows_break, what, unseen=broken.what.on_no_effect)


@fault_check(
    "FAULT-02",
    "faults",
    none="no fault of the driver profile can be healed",
    fix="Watch a broken device until it recovers. As soon as it is healthy, send a report on all streams.",
)
def heal_is_reported(episode: Episode) -> Finding | None:
    """After the heal a report has the health Healthy within the settle time."""
    if episode.healed is None:
        return None
    if not is_reported(episode):
        return not_tested(f"{episode.device}: the break was not reported", episode.broken.number)
    return judged_step(episode, episode.healed, shows_heal, "reported as Healthy")


@fault_check(
    "FAULT-03",
    "faults",
    none="no fault of the driver profile has a change of its cause",
    fix="Send a report when the message of a device changes, even if the health stays the same.",
)
def change_of_the_cause_is_reported(episode: Episode) -> Finding | None:
    """After a change of the cause a report has another health or message."""
    if episode.changed is None:
        return None
    if not is_reported(episode):
        return not_tested(f"{episode.device}: the break was not reported", episode.broken.number)
    return judged_step(episode, episode.changed, episode.shows_change, "reported with another health or message")


@fault_check(
    "FAULT-04",
    "faults",
    none="no fault of the driver profile makes the health of a device unknown",
    fix="Report Unknown if the health cannot be determined, for example because the vendor's library or daemon does "
    "not answer.",
)
def unknown_is_not_unhealthy(episode: Episode) -> Finding | None:
    """A device whose health the fault makes unknown is reported as Unknown."""
    broken = episode.broken
    if broken.what.health != Health.UNKNOWN:
        return None
    return judged_step(episode, broken, episode.shows_break, "reported as Unknown", unseen=broken.what.on_no_effect)


@fault_check(
    "FAULT-05",
    "faults",
    fix="Do not change the health and the message of the other devices.",
)
def fault_leaves_other_devices_alone(episode: Episode) -> Finding | None:
    """From the break to the end of the fault no other device changes its health or message."""
    if not is_reported(episode):
        return not_tested(f"{episode.device}: the break was not reported", episode.broken.number)
    start, end, others = began(episode.broken), _last_seen(episode), set()
    for stream in episode.streams:
        if stream.opened.at > start:
            continue
        for device, times in arrivals(stream).items():
            before = [one for at, _, one in times if at < start][-1:]
            after = [(number, one) for at, number, one in times if start <= at <= end]
            if device == episode.device or not before or not after:
                continue
            others.add(device)
            for number, one in after:
                if (one.health, one.message) != (before[0].health, before[0].message):
                    seen = f"{device}: {one.health} {one.message!r}, while {episode.device} was broken"
                    expected = f"{device} stays {before[0].health} {before[0].message!r}"
                    return failed(expected, seen, episode.broken.number, number)
    if not others:
        return None
    return passed(f"{len(others)} other devices stayed as they were", episode.broken.number)


def _last_seen(episode: Episode) -> float:
    """When the last step was shown, or had to be."""
    times = []
    for step, wanted in episode.steps:
        shown = [one for one in episode.reactions(step, wanted) if one.outcome in ("in time", "late")]
        times.append(max((step.at + one.seconds for one in shown), default=deadline(step)))
    return min(max(times, default=episode.broken.at), episode.end)


@fault_check(
    "FAULT-06",
    "faults",
    fix="Give each stream its own channel, and send each change to all channels.",
)
def all_subscribers_hear_a_fault(episode: Episode) -> Finding | None:
    """Each step that one stream shows in time is shown by all streams in time."""
    if not is_reported(episode):
        return not_tested(f"{episode.device}: the break was not reported", episode.broken.number)
    compared, slowest = 0, 0.0
    for step, wanted in episode.steps:
        found = episode.reactions(step, wanted)
        if not any(one.outcome == "in time" for one in found):
            continue
        for one in found:
            if one.outcome in ("late", "never"):
                seen = f"{episode.device}: {one.stream} showed fault {step.what.fault} {one.outcome}"
                first = next(each for each in found if each.outcome == "in time")
                records = (step.number, first.record, *filter(None, (one.record,)))
                return failed("all streams show the change within the settle time", seen, *records)
        if unproven := next((one for one in found if one.outcome == "unproven"), None):
            seen = f"{episode.device}: {unproven.stream} was not open long enough to show fault {step.what.fault}"
            return not_tested(seen, step.number)
        together = [one for one in found if one.outcome == "in time"]
        compared += len(together) > 1
        slowest = max(slowest, *(one.seconds for one in together))
    if not compared:
        return not_tested(f"{episode.device}: no two streams showed the fault", episode.broken.number)
    return passed(f"two streams showed each of {compared} steps within {slowest:.1f} s", episode.broken.number)


def _processes(evidence: Evidence, names: Iterable[str]) -> tuple[str, ...]:
    injected = (one.what.process for name in names for one in evidence.of(FaultInjected, name))
    return tuple(dict.fromkeys(injected))


@check(
    "FAULT-07",
    "services",
    "faults",
    fix="If a device fails, report the failure, and keep running.",
)
def driver_survives_faults(evidence: Evidence) -> Finding:
    """The driver does not end by itself after a fault was caused."""
    injected = list(evidence.of(FaultInjected, "faults"))
    processes = _processes(evidence, ("faults",))
    for ended in crashes(evidence, *processes):
        before = [one for one in injected if began(one) <= ended.at]
        if before:
            expected = "the driver keeps running while a device is broken"
            seen = f"after fault {before[-1].what.fault}, {exit_text(ended.what)}"
            return failed(expected, seen, before[-1].number, ended.number)
    if absent := absence(evidence):
        return not_applicable(absent[0], *absent[1])
    breaks = [one for one in injected if one.what.step == "break" and one.what.outcome == "done"]
    if not breaks:
        return not_tested("no fault was caused")
    grade = strongest(one.what.grade for one in breaks)
    text = f"the driver kept running with {len(breaks)} faults, one after another"
    return Finding(Verdict.PASS, text, records=tuple(one.number for one in breaks), grade=grade)
