"""Checks of faults at bad moments: without a stream, an API server or a kubelet, and across ends of processes."""

from dataclasses import replace

from drahealth.proto.events import BackendSwitched
from drahealth.proto.values import Health
from drahealth.suites.checking.checks.faults import fault_check, is_reported, judged_step
from drahealth.suites.checking.checks.registry import check
from drahealth.suites.checking.evidence import Evidence, Observation
from drahealth.suites.checking.faults import BACKEND_LIMIT
from drahealth.suites.checking.observed.faults import (
    Episode,
    Step,
    Wanted,
    began,
    episodes,
    failed_adapter,
    moved,
    shows_heal,
)
from drahealth.suites.checking.observed.streams import Stream, absence, arrivals, device_of
from drahealth.suites.checking.verdicts import Finding, failed, not_applicable, not_tested, passed, worst


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
    if episode.healed is None or finding.verdict != "PASS":
        return finding
    after = _first_reports(episode, episode.healed, shows_heal)
    return after if after.verdict != "PASS" else finding


@fault_check(
    "FAULT-10",
    "fault-without-api-server",
    fix="Do not call the API server to report health.",
)
def break_is_reported_without_api_server(episode: Episode) -> Finding | None:
    """A break and a heal while the API server is down are reported in time."""
    finding = judged_step(episode, episode.broken, episode.shows_break, f"reported as {episode.broken.what.health}")
    if episode.healed is None or finding.verdict != "PASS":
        return finding
    after = judged_step(episode, episode.healed, shows_heal, "reported as Healthy")
    return after if after.verdict != "PASS" else finding


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
    """The first report of a driver that was killed and started again shows the break."""
    if not is_reported(episode):
        return not_tested(f"{episode.device}: the break was not reported", episode.broken.number)
    return _first_reports(episode, episode.broken, episode.shows_break)


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
    if episode.healed is None or finding.verdict != "PASS":
        return finding
    after = _after_continue(episode, episode.healed, shows_heal, "reported as Healthy", "FAIL")
    return after if after.verdict != "PASS" else finding


def _after_continue(episode: Episode, step: Step, wanted: Wanted, what: str, unseen: str) -> Finding:
    """Whether a stream showed a step in time, from SIGCONT on."""
    if step.what.outcome != "done":
        return judged_step(episode, step, wanted, what)
    later = [one for one in episode.signals if one.what.signal == "SIGCONT" and one.number > step.number]
    if not later:
        return not_tested("the driver got no SIGCONT", step.number)
    return judged_step(episode, moved(step, later[0].at), wanted, f"{what} after SIGCONT", unseen=unseen)


def _first_reports(episode: Episode, step: Step, wanted: Wanted) -> Finding:
    """Whether the first report of each stream that was opened after a step shows it."""
    if step.what.outcome != "done":
        return judged_step(episode, step, wanted, "")
    last = began(episode.healed) if episode.healed and episode.healed.at > step.at else episode.end
    opened = [one for one in episode.streams if step.at < one.opened.at < last]
    for stream in opened:
        if not stream.reports:
            return _silent(stream)
        report = stream.reports[0]
        first = next((one for one in report.what.devices if device_of(one) == episode.device), None)
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
    if not opened:
        return not_tested("no stream was opened after the action", step.number)
    seen = f"{episode.device}, fault {step.what.fault}: shown by the first reports of {len(opened)} new streams"
    return passed(seen, step.number, *(one.opened.number for one in opened))


def _silent(stream: Stream) -> Finding:
    waited = stream.open_seconds
    if stream.first_is_late:
        return failed("a first report within 5 s", f"{stream}: no report in {waited:.1f} s", stream.opened.number)
    return not_tested(f"{stream} was open for only {waited:.1f} s", stream.opened.number)
