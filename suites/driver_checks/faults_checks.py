"""Checks of what a driver reports while drahealth breaks, changes and heals devices, at all moments."""

from collections.abc import Callable
from dataclasses import replace

from drahealth.proto.events import BackendSwitched, FaultInjected
from drahealth.proto.values import Health
from drahealth.suites.driver_checks.check import check
from drahealth.suites.driver_checks.evidence import Evidence, Observation
from drahealth.suites.driver_checks.fault_space_checks import ALWAYS
from drahealth.suites.driver_checks.observed import Device, crashes
from drahealth.suites.driver_checks.observed_health import (
    Episode,
    Step,
    Stream,
    Wanted,
    absence,
    adapter_cause,
    arrivals,
    began,
    deadline,
    device_of,
    episodes,
    failed_adapter,
    moved,
    shows_heal,
)
from drahealth.suites.driver_checks.output_text import exit_text
from drahealth.suites.driver_checks.profile.faults import BACKEND_LIMIT, MARGIN
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

# Checks of what a driver reports while drahealth breaks, changes and heals a device.

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
    return f"{about}: `{step.what.action}` was done, but the device was not {what}{said}{possible_cause(episode, step)}"


def possible_cause(episode: Episode, step: Step) -> str:
    """What the fault adapter may have done: broken another device than asked, or none."""
    others = set[Device]()
    for stream in episode.streams:
        for device, times in arrivals(stream).items():
            before = [one for at, _, one in times if at < began(step)][-1:]
            after = [one for at, _, one in times if began(step) <= at <= deadline(step)]
            if before and device != episode.device and any(one.health != before[0].health for one in after):
                others.add(device)
    return adapter_cause(episode.device, others, shown=step is not episode.broken and not others)


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
    if not is_reported(episode):
        return not_tested(f"{episode.device}: the break was not reported", episode.broken.number)
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
    compared, slowest, unproven = 0, 0.0, None
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
        if short := next((one for one in found if one.outcome == "unproven"), None):
            seen = f"{episode.device}: {short.stream} was not open long enough to show fault {step.what.fault}"
            unproven = unproven or not_tested(seen, step.number)
        together = [one for one in found if one.outcome == "in time"]
        compared += len(together) > 1
        slowest = max(slowest, *(one.seconds for one in together))
    if unproven:
        return unproven
    if not compared:
        return not_tested(f"{episode.device}: no two streams showed the fault", episode.broken.number)
    return passed(f"two streams showed each of {compared} steps within {slowest:.1f} s", episode.broken.number)


_SURVIVES = (
    *(name for name in ALWAYS if name != "faults"),
    *("fault-while-stopped", "fault-over-restart", "pod-faults", "kubelet-pod-faults"),
)
"""Other experiments in which a driver keeps running when devices break and recover."""


@check(
    "FAULT-07",
    "services",
    "faults",
    fix="If a device fails, report the failure, and keep running.",
    reads=_SURVIVES,
)
def driver_survives_faults(evidence: Evidence) -> Finding:
    """The driver does not end by itself after a fault was caused, in any experiment that leaves its backend alone."""
    injected = [one for name in ("faults", *_SURVIVES) for one in evidence.of(FaultInjected, name)]
    for ended in crashes(evidence, *dict.fromkeys(one.what.process for one in injected)):
        same = [one for one in injected if one.experiment == ended.experiment]
        if before := [one for one in same if began(one) <= ended.at]:
            expected = "the driver keeps running while a device is broken"
            seen = f"after fault {before[-1].what.fault}, {exit_text(ended.what)}"
            return failed(expected, seen, before[-1].number, ended.number)
    if absent := absence(evidence):
        return not_applicable(absent[0], *absent[1])
    breaks = [one for one in injected if one.what.step == "break" and one.what.outcome == "done"]
    if not breaks:
        return not_tested("no fault was caused")
    grade = strongest(one.what.grade for one in breaks)
    text = f"the driver kept running with {len(breaks)} faults"
    return Finding(Verdict.PASS, text, records=tuple(one.number for one in breaks), grade=grade)


# Checks of faults at bad moments: without a stream, an API server or a kubelet, and across ends of processes.


@fault_check(
    "FAULT-08",
    "fault-during-prepare",
    fix="Send health reports from a separate goroutine or thread. It must not wait for the lock that "
    "NodePrepareResources holds.",
)
def break_is_reported_during_prepare(episode: Episode) -> Finding | None:
    """A break while NodePrepareResources is pending is reported in time."""
    return judged_step(episode, episode.broken, episode.shows_break, f"reported as {episode.broken.what.health}")


@fault_check(
    "FAULT-09",
    "fault-without-stream",
    fix="Watch the health of the hardware even while no stream is open. Start each stream with the current health.",
)
def new_stream_starts_with_the_fault(episode: Episode) -> Finding | None:
    """The first report of a stream that opens after the break, or the heal, shows it."""
    finding = _first_reports(episode, episode.broken, episode.shows_break)
    healed = episode.healed
    return _and_heal(finding, _first_reports(episode, healed, shows_heal) if healed else None)


def _and_heal(finding: Finding, after: Finding | None) -> Finding:
    """The finding on a break, or that on its heal if it is worse."""
    return after if after and after.verdict < finding.verdict else finding


@fault_check(
    "FAULT-10",
    "fault-without-api-server",
    fix="Do not call the API server to report health.",
)
def break_is_reported_without_api_server(episode: Episode) -> Finding | None:
    """A break and a heal while the API server is down are reported in time."""
    finding = judged_step(episode, episode.broken, episode.shows_break, f"reported as {episode.broken.what.health}")
    healed = episode.healed
    return _and_heal(finding, judged_step(episode, healed, shows_heal, "reported as Healthy") if healed else None)


@fault_check(
    "FAULT-11",
    "fault-during-kubelet-restart",
    fix="Watch the health of the hardware even while the driver is not registered. Start each stream with the current "
    "health.",
)
def new_kubelet_hears_of_the_fault(episode: Episode) -> Finding | None:
    """After a restart of the kubelet the first report shows a break of the meantime."""
    return _first_reports(episode, episode.broken, episode.shows_break)


@fault_check(
    "FAULT-12",
    "fault-over-restart",
    fix="At the start of the driver, determine the health of all devices before the first report.",
)
def restarted_driver_reports_the_fault(episode: Episode) -> Finding | None:
    """The first report of a driver that was killed and started again shows the break, or Unknown and soon the break."""
    if not is_reported(episode):
        return not_tested(f"{episode.device}: the break was not reported", episode.broken.number)
    return _first_reports(episode, episode.broken, episode.shows_break, starts=True)


@check(
    "FAULT-13",
    "services",
    "backend-restart",
    fix="If the connection to the backend ends, connect again, and report the health that the backend returns.",
)
def break_is_reported_after_a_backend_restart(evidence: Evidence) -> Finding:
    """A break is reported after the backend returned; the driver has 60 s to connect to it again."""
    if absent := absence(evidence):
        return not_applicable(absent[0], *absent[1])
    backs = [one for one in evidence.of(BackendSwitched, "backend-restart") if one.what.running]
    judged = []
    for found in episodes(evidence, "backend-restart"):
        before = [one for one in backs if one.number < found.broken.number]
        if before:
            judged.append(replace(_after_backend(found, before[-1]), grade=found.broken.what.grade))
    return worst(judged) if judged else not_tested("the backend was not started again")


def _after_backend(found: Episode, back: Observation[BackendSwitched]) -> Finding:
    """Whether the device was healthy before the break, and the break was reported once the driver had connected."""
    for stream in found.streams:
        if stream.end and stream.end.at < began(found.broken):
            continue  # its last report is an old one
        times = arrivals(stream).get(found.device, [])
        before = [one for one in times if one[0] < began(found.broken)][-1:]
        if before and before[0][2].health is not Health.HEALTHY:
            expected = f"{found.device} is Healthy within {BACKEND_LIMIT:g} s after the restart of the backend"
            return failed(expected, f"it is {before[0][2].health}", back.number, before[0][1])
    connects = max(back.at + BACKEND_LIMIT - found.broken.at, 0.0)
    step = replace(found.broken, what=replace(found.broken.what, settle=found.broken.what.settle + connects))
    return judged_step(found, step, found.shows_break, f"reported as {found.broken.what.health}")


@fault_check(
    "FAULT-14",
    "second-fault",
    fix="For each device, keep a list of its faults. Report the device as healthy only if this list is empty.",
)
def second_fault_does_not_heal(episode: Episode) -> Finding | None:
    """From the second break until the first fault is cleared, no report has a health that neither fault causes."""
    second = episode.changed
    if second is None:
        return not_tested(f"{episode.device}: there was no second fault", episode.broken.number)
    about = f"{episode.device}, faults {episode.broken.what.fault} and {second.what.fault}"
    if problem := failed_adapter(second, about):
        return problem
    if not is_reported(episode):
        return not_tested(f"{episode.device}: the first fault was not reported", episode.broken.number)
    healths = {episode.broken.what.health, second.what.health}
    end = min(episode.end, began(episode.healed) if episode.healed else episode.end)
    records = []
    for stream in episode.streams:
        times = arrivals(stream).get(episode.device, [])
        for at, number, one in times:
            if not began(second) <= at < end:
                continue
            if str(one.health) not in healths:
                expected = f"{' or '.join(sorted(healths))} while both faults last"
                return failed(expected, f"{about}: {one.health} {one.message!r} in {stream}", second.number, number)
            # A report can come before the action returns: it counts only if it shows something new.
            records += [number] if at > second.at or episode.shows_change(one) else []
    if not records:
        return not_tested(f"{about}: no report followed the second fault", second.number)
    changed = any(one.outcome in ("in time", "late") for one in episode.reactions(second, episode.shows_change))
    return passed(f"{about}: {'another message or health' if changed else 'no change'}", second.number, records[0])


@fault_check(
    "FAULT-15",
    "fault-while-stopped",
    fix="When the process continues, read the health of the hardware. The health can have changed while the process "
    "was stopped.",
)
def change_while_stopped_is_reported(episode: Episode) -> Finding | None:
    """A break and a heal while the driver is stopped by SIGSTOP are reported in time after SIGCONT."""
    broken = episode.broken
    shown = f"reported as {broken.what.health}"
    finding = _after_continue(episode, broken, episode.shows_break, shown, broken.what.on_no_effect)
    healed, heals = episode.healed, "reported as Healthy"
    return _and_heal(finding, _after_continue(episode, healed, shows_heal, heals, "FAIL") if healed else None)


def _after_continue(episode: Episode, step: Step, wanted: Wanted, what: str, unseen: str) -> Finding:
    """Whether a stream showed a step in time, from SIGCONT on."""
    if step.what.outcome != "done":
        return judged_step(episode, step, wanted, what)
    later = [one for one in episode.signals if one.what.signal == "SIGCONT" and one.number > step.number]
    if not later:
        return not_tested("the driver got no SIGCONT", step.number)
    return judged_step(episode, moved(step, later[0].at), wanted, f"{what} after SIGCONT", unseen=unseen)


def _first_reports(episode: Episode, step: Step, wanted: Wanted, *, starts: bool = False) -> Finding:
    """Whether the first report of each stream that was opened after a step shows it."""
    if step.what.outcome != "done":
        return judged_step(episode, step, wanted, "")
    last = began(episode.healed) if episode.healed and episode.healed.at > step.at else episode.end
    all_devices = [one for one in episode.streams if not one.api.prepared_only]
    opened = [one for one in all_devices if step.at < one.opened.at < last]
    unproven = None
    for stream in opened:
        if not stream.reports:
            silent = _silent(stream)
            if silent.verdict is Verdict.FAIL:
                return silent
            unproven = unproven or silent
            continue
        report = stream.reports[0]
        first = next((one for one in report.what.devices if device_of(one) == episode.device), None)
        if starts and first and first.health is Health.UNKNOWN and _soon(episode, stream, step, wanted):
            continue  # a driver that starts has not determined the health yet
        if first is None or not wanted(first):
            state = f"{first.health} {first.message!r}" if first else "not listed"
            seen = f"{episode.device} in the first report of {stream}: {state}"
            return failed(
                f"the first report shows the effect of `{step.what.action}`",
                seen,
                step.number,
                stream.opened.number,
                report.number,
            )
    if unproven:
        return unproven
    if not opened:
        return not_tested("no stream was opened after the action", step.number)
    seen = f"{episode.device}, fault {step.what.fault}: shown by the first reports of {len(opened)} new streams"
    return passed(seen, step.number, *(one.opened.number for one in opened))


def _soon(episode: Episode, stream: Stream, step: Step, wanted: Wanted) -> bool:
    """Whether a new stream shows a step within the settle time."""
    limit = stream.opened.at + step.what.settle + MARGIN
    return any(at <= limit and wanted(one) for at, _, one in arrivals(stream).get(episode.device, []))


def _silent(stream: Stream) -> Finding:
    waited = stream.open_seconds
    if stream.first_is_late:
        return failed("a first report within 5 s", f"{stream}: no report in {waited:.1f} s", stream.opened.number)
    return not_tested(f"{stream} was open for only {waited:.1f} s", stream.opened.number)
