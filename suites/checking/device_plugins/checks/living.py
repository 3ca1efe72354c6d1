"""Checks of how the process of a device plugin runs and ends."""

from drahealth.proto.events import ChildrenEnded, ProcessExited, ProcessStarted, SignalSent, SocketsListed
from drahealth.suites.checking.checks.registry import check
from drahealth.suites.checking.device_plugins.observed import plugin_crashes
from drahealth.suites.checking.evidence import Evidence, Observation
from drahealth.suites.checking.observed.processes import children_text
from drahealth.suites.checking.output_text import exit_text
from drahealth.suites.checking.verdicts import Finding, failed, not_tested, passed

_END = "plugin-end"


@check("DEVPLUGIN-21", _END, fix="Handle SIGTERM: stop the gRPC servers and all child processes, and exit.")
def plugin_exits_after_sigterm(evidence: Evidence) -> Finding:
    """After SIGTERM the process exits by itself, and none of its children runs 10 s later."""
    sent = _signal(evidence, "SIGTERM")
    if sent is None:
        return not_tested("SIGTERM was not sent")
    if killed := _signal(evidence, "SIGKILL"):
        seen = f"the plugin still ran {killed.at - sent.at:.0f} s after SIGTERM, and drahealth killed it"
        return failed("an exit after SIGTERM", seen, sent.number, killed.number)
    ended = next((one for one in evidence.of(ProcessExited, _END) if one.number > sent.number), None)
    if ended is None:
        return not_tested("the end of the plugin was not seen", sent.number)
    children = next(evidence.of(ChildrenEnded, _END), None)
    if children is None:
        return not_tested("the end of the plugin's child processes was not seen", sent.number, ended.number)
    if children.what.killed:
        seen = children_text(children.what.killed)
        return failed("no child process runs 10 s after the exit of the plugin", seen, sent.number, children.number)
    seen = f"the plugin exited {ended.at - sent.at:.1f} s after SIGTERM with code {ended.what.exit_code}"
    return passed(seen, sent.number, ended.number)


@check("DEVPLUGIN-22", _END, fix="At the end of the plugin, remove its socket and its registration socket.")
def plugin_removes_its_sockets(evidence: Evidence) -> Finding:
    """No socket remains after the exit."""
    listed = next((one for one in evidence.of(SocketsListed, _END) if one.what.moment == "ended"), None)
    if listed is None or _signal(evidence, "SIGKILL"):
        return not_tested("the plugin did not end after SIGTERM")
    left = (*listed.what.device_plugins, *listed.what.registry, *listed.what.plugins)
    if left:
        return failed("no socket remains", f"sockets remain: {', '.join(left)}", listed.number)
    return passed("no socket remains", listed.number)


@check(
    "DEVPLUGIN-23",
    _END,
    fix="Find the cause of the exit in the output of the plugin.",
    reads=("plugin-registration", "list-and-watch", "allocation", "preferred-allocation", "container-start"),
)
def plugin_runs_until_it_is_stopped(evidence: Evidence) -> Finding:
    """The process does not end before a signal, except after a restart of the kubelet."""
    if ended := next(plugin_crashes(evidence, "main", "restarted", "broken"), None):
        seen = f"in experiment {ended.experiment}, {exit_text(ended.what)}"
        return failed("the plugin runs until it gets a signal", seen, ended.number)
    started = next((one for one in evidence.of(ProcessStarted) if one.what.process == "main"), None)
    sent = _signal(evidence, "SIGTERM")
    if started is None or sent is None:
        return not_tested("the plugin was not watched from its start to its end")
    return passed(f"the plugin ran for {sent.at - started.at:.0f} s until SIGTERM", started.number, sent.number)


def _signal(evidence: Evidence, name: str) -> Observation[SignalSent] | None:
    return next((one for one in evidence.of(SignalSent, _END) if one.what.signal == name), None)
