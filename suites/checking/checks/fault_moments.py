"""Checks of faults at bad moments: without a stream, an API server or a kubelet, and across ends of processes."""

from dataclasses import replace

from drahealth.proto.events import BackendSwitched
from drahealth.proto.values import Health
from drahealth.suites.checking.checks.faults import fault_check, is_reported, judged_step
from drahealth.suites.checking.checks.registry import check
from drahealth.suites.checking.evidence import Evidence
from drahealth.suites.checking.faults import BACKEND_LIMIT
from drahealth.suites.checking.observed.faults import Episode, Step, Wanted, began, episodes, shows_heal
from drahealth.suites.checking.observed.streams import Stream, absence, arrivals, device_of
from drahealth.suites.checking.verdicts import Finding, failed, not_applicable, not_tested, passed

_FIRST = 5.0
"""Seconds until the first report of a stream."""


@fault_check(
    "FAULT-08",
    "fault-during-prepare",
    fix="Report health from a goroutine or thread of its own, without the lock that NodePrepareResources holds.",
)
def break_is_reported_during_prepare(episode: Episode) -> Finding | None:
    """A break while NodePrepareResources is pending is reported in time."""
    return judged_step(episode, episode.broken, episode.shows_break, f"reported as {episode.broken.what.health}")


@fault_check(
    "FAULT-09",
    "fault-without-stream",
    fix="Follow the health of the hardware also without a stream, and start each stream with the present health.",
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
    fix="Report health without calls of the API server.",
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
    fix="Follow the health of the hardware also while the driver is not registered, and start each stream with the "
    "current health.",
)
def new_kubelet_hears_of_the_fault(episode: Episode) -> Finding | None:
    """After a restart of the kubelet the first report shows a break of the meantime."""
    return _first_reports(episode, episode.broken, episode.shows_break)


@fault_check(
    "FAULT-12",
    "fault-over-restart",
    fix="Determine the health of all devices at the start, before the first report.",
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
    fix="Connect to the backend again after its end, and report the health that it then has.",
)
def break_is_reported_after_a_backend_restart(evidence: Evidence) -> Finding:
    """After the backend died and returned, devices are Healthy within 60 s, and a break is reported."""
    if absent := absence(evidence):
        return not_applicable(absent[0], *absent[1])
    back = next((one for one in evidence.of(BackendSwitched, "backend-restart") if one.what.running), None)
    found = next(episodes(evidence, "backend-restart"), None)
    if back is None or found is None:
        return not_tested("the backend was not started again")
    for stream in found.streams:
        times = arrivals(stream).get(found.device, [])
        before = [one for one in times if one[0] < began(found.broken)][-1:]
        if before and before[0][2].health is not Health.HEALTHY:
            expected = f"{found.device} is Healthy within {BACKEND_LIMIT:g} s after the backend returned"
            return failed(expected, f"it is {before[0][2].health}", back.number, before[0][1])
    finding = judged_step(found, found.broken, found.shows_break, f"reported as {found.broken.what.health}")
    return replace(finding, grade=found.broken.what.grade)


def _first_reports(episode: Episode, step: Step, wanted: Wanted) -> Finding:
    """Whether the first report of each stream that was opened after a step shows it."""
    if step.what.outcome != "done":
        return judged_step(episode, step, wanted, "")
    last = began(episode.healed) if episode.healed and episode.healed.at > step.at else float("inf")
    opened = [one for one in episode.streams if step.at < one.opened.at < last]
    for stream in opened:
        if not stream.reports:
            return _silent(stream)
        report = stream.reports[0]
        first = next((one for one in report.what.devices if device_of(one) == episode.device), None)
        if first is None or not wanted(first):
            state = f"{first.health} {first.message!r}" if first else "not listed"
            seen = f"{episode.device} in the first report of {stream}: {state}"
            return failed(f"{step.what.action} is shown", seen, step.number, stream.opened.number, report.number)
    if not opened:
        return not_tested("no stream was opened afterwards", step.number)
    seen = f"{episode.device}, fault {step.what.fault}: shown by the first reports of {len(opened)} new streams"
    return passed(seen, step.number, *(one.opened.number for one in opened))


def _silent(stream: Stream) -> Finding:
    waited = stream.open_seconds
    if waited >= _FIRST - 0.1:
        return failed("a first report within 5 s", f"{stream}: none in {waited:.1f} s", stream.opened.number)
    return not_tested(f"{stream} was open for {waited:.1f} s only", stream.opened.number)
