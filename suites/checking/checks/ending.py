"""Checks of how a driver ends."""

from drahealth.proto.events import (
    ChildrenEnded,
    OutputMeasured,
    ProcessExited,
    ProcessStarted,
    SignalSent,
    SocketsListed,
)
from drahealth.suites.checking.checks.registry import check
from drahealth.suites.checking.evidence import Evidence
from drahealth.suites.checking.observed.processes import children_text, crashes
from drahealth.suites.checking.output_text import exit_text
from drahealth.suites.checking.verdicts import Finding, failed, not_applicable, not_tested, passed

_MIB = 1024 * 1024
OUTPUT_LIMIT = 10 * _MIB
"""Bytes of output of a process in a minute. Kubelets rotate the log of a container at this size."""


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
        seen = f"the driver still ran {killed.at - sent.at:.0f} s after SIGTERM, and drahealth killed it"
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
    return passed(seen, sent.number, ended.number, listed.number)


@check(
    "PLUGIN-24",
    "end",
    fix="At SIGTERM, end all child processes, and wait for their exit. If a shell script starts the driver, use `exec` "
    "in the script.",
)
def children_end_with_the_driver(evidence: Evidence) -> Finding:
    """No child process runs 10 s after the driver's exit."""
    if evidence.header.workload:
        return not_applicable("the driver ran in a Pod: the kubelet ends all processes of a container")
    ended = next(evidence.of(ChildrenEnded, "end"), None)
    if ended is None:
        return not_tested("the driver did not exit after SIGTERM by itself")
    if killed := ended.what.killed:
        return failed("no child process runs 10 s after the exit of the driver", children_text(killed), ended.number)
    return passed("no child process ran 10 s after the exit of the driver", ended.number)


@check(
    "PLUGIN-25",
    "end",
    fix="Write fewer log lines by default. Wait between retries, and do not repeat the same log line.",
    reads=("watch", "refused-registration", "slice-deletion", "api-server-down"),
)
def output_is_at_most_10_mib_per_minute(evidence: Evidence) -> Finding:
    """No process writes more than 10 MiB of output, or 10 MiB per minute."""
    largest = max(evidence.of(OutputMeasured), key=lambda one: _rotations(one.what), default=None)
    if largest is None:
        return not_tested("the output was not measured")
    one = largest.what
    seen = f"process {one.process} wrote {one.size / _MIB:.1f} MiB in {one.seconds:.0f} s"
    if _rotations(one) > 1:
        return failed("at most 10 MiB of output per minute, or in a shorter run", seen, largest.number)
    return passed(f"{seen}; no other process wrote more", largest.number)


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


def _rotations(measured: OutputMeasured) -> float:
    """How often the output reaches the limit, each minute; at least a minute counts."""
    return measured.size / OUTPUT_LIMIT / max(1.0, measured.seconds / 60)
