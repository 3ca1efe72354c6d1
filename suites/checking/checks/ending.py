"""Checks of how a driver ends."""

from drahealth.proto.events import ProcessExited, ProcessStarted, SignalSent, SocketsListed
from drahealth.suites.checking.checks.registry import check
from drahealth.suites.checking.evidence import Evidence
from drahealth.suites.checking.observed.processes import crashes, exit_text
from drahealth.suites.checking.verdicts import Finding, failed, not_tested, passed


@check(
    "PLUGIN-18",
    "end",
    fix="Handle SIGTERM: stop the gRPC servers, remove the registration socket and the plugin socket, and exit.",
)
def driver_ends_without_sockets(evidence: Evidence) -> Finding:
    """After SIGTERM the process exits by itself, and no socket remains."""
    sent = next((one for one in evidence.of(SignalSent, "end") if one.what.signal == "SIGTERM"), None)
    if sent is None:
        return not_tested("SIGTERM was not sent")
    killed = next((one for one in evidence.of(SignalSent, "end") if one.what.signal == "SIGKILL"), None)
    if killed:
        seen = f"the driver still ran {killed.at - sent.at:.0f} s after SIGTERM, and was killed"
        return failed(
            f"the driver exits within {killed.at - sent.at:.0f} s after SIGTERM", seen, sent.number, killed.number
        )
    ended = next((one for one in evidence.of(ProcessExited, "end") if one.number > sent.number), None)
    listed = next((one for one in evidence.of(SocketsListed, "end") if one.what.moment == "ended"), None)
    if listed and (left := (*listed.what.registry, *listed.what.plugins)):
        return failed("no socket remains", f"sockets remain: {', '.join(left)}", sent.number, listed.number)
    if ended is None or listed is None:
        return not_tested("the end of the driver was not seen", sent.number)
    seen = f"the driver exited {ended.at - sent.at:.1f} s after SIGTERM with code {ended.what.exit_code}"
    seen += "; no socket remains"
    if ended.what.children:
        seen += f"; {ended.what.children} child processes still ran, and were killed"
    return passed(seen, sent.number, ended.number, listed.number)


@check(
    "PLUGIN-20",
    "end",
    fix="Find the cause of the exit in the output of the driver.",
    reads=("services", "slices", "watch", "subscribers", "claims", "driver-restart"),
)
def driver_runs_until_it_is_stopped(evidence: Evidence) -> Finding:
    """No process of the driver ends before it gets a signal."""
    if ended := next(crashes(evidence, "main", "restarted"), None):
        seen = f"in experiment {ended.experiment}, {exit_text(ended.what)}"
        return failed("the driver runs until it gets a signal", seen, ended.number)
    started = next((one for one in evidence.of(ProcessStarted) if one.what.process == "main"), None)
    sent = next(evidence.of(SignalSent, "end"), None)
    if started is None or sent is None:
        return not_tested("the driver was not watched from its start to its end")
    return passed(
        f"the driver ran for {sent.at - started.at:.0f} s until {sent.what.signal}", started.number, sent.number
    )
