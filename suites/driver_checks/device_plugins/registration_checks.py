"""Checks of how a device plugin registers, advertises its calls, runs and ends."""

from collections.abc import Iterator
from typing import Any

from drahealth.proto.events import (
    ChildrenEnded,
    KubeletSwitched,
    ProcessExited,
    ProcessStarted,
    RegistrationFailed,
    SignalSent,
    SocketRemoved,
    SocketsListed,
)
from drahealth.proto.quoting import one_line
from drahealth.proto.services import GET_PREFERRED_ALLOCATION, PRE_START_CONTAINER
from drahealth.suites.driver_checks.check import check, resource_check
from drahealth.suites.driver_checks.device_plugins.observed import (
    Registration,
    calls,
    lacks_option,
    options_calls,
    plugin_crashes,
    registration_problem,
    registrations,
    without_healthy_device,
)
from drahealth.suites.driver_checks.evidence import Evidence, Observation
from drahealth.suites.driver_checks.observed import at, children_text, is_done, outcome, sequence, texts
from drahealth.suites.driver_checks.output_text import exit_text
from drahealth.suites.driver_checks.verdicts import Finding, failed, not_applicable, not_tested, passed

# Checks of how a device plugin registers.

_AGAIN = 60.0


@check(
    "DEVPLUGIN-01",
    "plugin-registration",
    fix="Call Register on kubelet.sock in the directory `{device_plugins_dir}`, or "
    "serve a registration socket in the directory `{registry_dir}`.",
)
def device_plugin_registers(evidence: Evidence) -> Finding:
    """A kubelet gets a registration in time."""
    found = registrations(evidence, "plugin-registration")
    if found:
        names = ", ".join(dict.fromkeys(one_line(one.resource) for one in found))
        return passed(f"a registration of {names}", *(one.number for one in found))
    missing = next(evidence.of(RegistrationFailed, "plugin-registration"), None)
    if missing:
        return failed("a registration", missing.what.problem, missing.number)
    return not_tested("drahealth did not wait for a registration")


@check(
    "DEVPLUGIN-01",
    fix="Register with version v1beta1, a resource name such as example.com/gpu, and the file name of the socket.",
    reads=("plugin-registration",),
)
def registration_fields_are_valid(evidence: Evidence) -> Finding:
    """Version, resource and endpoint of each registration are valid."""
    found = registrations(evidence)
    if not found:
        return not_tested("there was no registration")
    for one in found:
        if wrong := _wrong_fields(one):
            return failed(*wrong, one.number)
    return passed(f"{found[0].resource} at {found[0].endpoint}", found[0].number)


def _wrong_fields(one: Registration) -> tuple[str, str] | None:
    """What was expected, and what was seen; None for valid fields."""
    if problem := registration_problem(one.resource, *one.versions):
        return "a registration that a kubelet accepts", problem
    is_name = "/" not in one.endpoint and one.endpoint not in ("", ".", "..")
    if one.options is not None and not is_name:
        return "the file name of the plugin's socket as endpoint", f"endpoint {one.endpoint!r}"
    if one.options is None and one.endpoint and not one.endpoint.startswith(("/", "{", "~")):
        return "an absolute path as endpoint, or no endpoint", f"endpoint {one.endpoint!r}"
    return None


@resource_check(
    "DEVPLUGIN-02",
    "plugin-registration",
    fix="Listen on the plugin's socket, and serve the DevicePlugin service, before you call Register.",
)
def plugin_is_served_when_it_registers(evidence: Evidence) -> Finding:
    """A kubelet that gets the registration can connect, and GetDevicePluginOptions succeeds."""
    found = [one for one in registrations(evidence, "plugin-registration") if not _wrong_fields(one)]
    records: tuple[int, ...] = ()
    for one in found:
        asked = options_calls(evidence, one.resource, "plugin-registration")
        failures = [call for call in asked if call.what.code != "OK"]
        if failures:
            return failed("GetDevicePluginOptions succeeds", outcome(failures[0].what), failures[0].number)
        if not asked and one.problem:
            return failed("a server at the endpoint, before the plugin registers", one.problem, one.number)
        if asked:
            records = records or (asked[0].number, one.number)
    if not records:
        return not_tested("there was no valid registration")
    return passed("GetDevicePluginOptions succeeded during the registration", *records)


@resource_check(
    "DEVPLUGIN-03",
    "plugin-registration",
    fix="In `options` of RegisterRequest, send the options that GetDevicePluginOptions returns.",
)
def options_agree(evidence: Evidence) -> Finding:
    """Register has the options of GetDevicePluginOptions."""
    good = absent = None
    for one in registrations(evidence, "plugin-registration"):
        if one.options is None:
            reason = "the plugin has a registration socket, and does not send options in Register"
            absent = absent or not_applicable(reason, one.number)
            continue
        for asked in options_calls(evidence, one.resource, "plugin-registration"):
            answer = asked.what.response
            if asked.what.code == "OK" and answer != one.options:
                seen = f"{one.options or 'no options'} in Register, {answer or 'no options'} in the answer"
                return failed("equal options", seen, one.number, asked.number)
            if asked.what.code == "OK":
                good = good or passed(f"options {answer or 'are all false'}", one.number, asked.number)
    return good or absent or not_tested("GetDevicePluginOptions was not answered")


@resource_check(
    "DEVPLUGIN-19",
    "plugin-kubelet-restart",
    fix="Watch the directory of kubelet.sock. If there is a new kubelet.sock, or if the plugin's socket is removed, "
    "serve a new socket, and call Register again.",
)
def plugin_registers_with_a_restarted_kubelet(evidence: Evidence) -> Finding:
    """A registration is accepted within 60 s after the start of the kubelet."""
    name = "plugin-kubelet-restart"
    up = _kubelet_start(evidence, name)
    if up is None:
        return not_tested("the kubelet was not restarted")
    again = [one for one in registrations(evidence, name) if one.number > up.number]
    if accepted := next((one for one in again if not one.problem), None):
        exited = next(evidence.of(ProcessExited, name), None)
        how = f"the plugin exited with code {exited.what.exit_code}, was started again, and" if exited else "the plugin"
        return passed(f"{how} registered {accepted.resource} again", up.number, accepted.number)
    if again:
        return failed("a registration that a kubelet accepts", again[0].problem, up.number, again[0].number)
    missing = next(evidence.of(RegistrationFailed, name), None)
    if missing:
        return failed(f"a registration within {_AGAIN:g} s", missing.what.problem, up.number, missing.number)
    return not_tested("the plugin was not watched long enough after the restart", up.number)


@resource_check(
    "DEVPLUGIN-20",
    "removed-socket",
    fix="Watch the plugin's socket. If it is removed, serve a new socket, and call Register again.",
)
def plugin_serves_a_new_socket(evidence: Evidence) -> Finding:
    """The plugin has a socket again within 30 s after the removal."""
    name = "removed-socket"
    removed = next(evidence.of(SocketRemoved, name), None)
    if removed is None:
        return not_tested("no socket was removed")
    again = next((one for one in registrations(evidence, name) if one.number > removed.number), None)
    if again and not again.problem:
        return passed("the plugin registered again", removed.number, again.number)
    listed = next((one for one in evidence.of(SocketsListed, name) if one.number > removed.number), None)
    if listed is None or not is_done(evidence, name):
        return not_tested("the plugin was not watched long enough after the removal", removed.number)
    if removed.what.path in listed.what.device_plugins:
        return passed("the plugin serves a new socket", removed.number, listed.number)
    return failed("a new socket within 30 s", "the plugin has no socket", removed.number, listed.number)


@resource_check(
    "DEVPLUGIN-24",
    "refused-plugin",
    fix="If the kubelet refuses the registration, continue to watch kubelet.sock, or exit so that the kubelet restarts "
    "the plugin.",
)
def refused_plugin_registers_with_the_next_kubelet(evidence: Evidence) -> Finding:
    """After the refusal, the plugin registers with the next kubelet, or it exits."""
    name = "refused-plugin"
    refused = next((one for one in registrations(evidence, name) if one.problem), None)
    if refused is None:
        return not_tested("no registration was refused")
    up = _kubelet_start(evidence, name)
    later = [one for one in registrations(evidence, name) if up and one.number > up.number]
    if later:
        return passed("the plugin registered with the next kubelet", refused.number, later[0].number)
    if exited := next(evidence.of(ProcessExited, name), None):
        return passed(f"the plugin exited with code {exited.what.exit_code}", refused.number, exited.number)
    if up is None or not is_done(evidence, name):
        return not_tested("the plugin was not watched long enough after the refusal", refused.number)
    return failed(
        f"a registration within {_AGAIN:g} s, or an exit", "no registration and no exit", refused.number, up.number
    )


def _kubelet_start(evidence: Evidence, experiment: str) -> Observation[KubeletSwitched] | None:
    """The last start of the kubelet, if it was stopped before."""
    switched = list(evidence.of(KubeletSwitched, experiment))
    downs = [one.number for one in switched if not one.what.running]
    return next((one for one in switched if one.what.running and downs and one.number > downs[0]), None)


# Checks of the calls that a device plugin can advertise: GetPreferredAllocation and PreStartContainer.

_PREFERRED = "preferred-allocation"
_READS = ("list-and-watch",)  # it has the devices


@resource_check(
    "DEVPLUGIN-16",
    _PREFERRED,
    fix="Implement GetPreferredAllocation, or set get_preferred_allocation_available to false.",
    reads=_READS,
)
def advertised_preference_is_served(evidence: Evidence) -> Finding:
    """GetPreferredAllocation succeeds."""
    found = calls(evidence, GET_PREFERRED_ALLOCATION, _PREFERRED)
    for one in found:
        if one.what.code != "OK":
            return failed("GetPreferredAllocation succeeds", outcome(one.what), one.number)
    if not found and (lacking := _lacking(evidence, "get_preferred_allocation_available")):
        return lacking
    if not found:
        return not_tested("GetPreferredAllocation was not called")
    return passed(f"{len(found)} calls succeeded", *(one.number for one in found))


@resource_check(
    "DEVPLUGIN-17",
    _PREFERRED,
    fix="From available_deviceIDs, choose as many devices as allocation_size says, and no device twice. First choose "
    "all devices of must_include_deviceIDs.",
    reads=_READS,
)
def preferred_devices_are_as_requested(evidence: Evidence) -> Finding:
    """Each answer has the requested number of available devices, with those that it must include."""
    found = [one for one in calls(evidence, GET_PREFERRED_ALLOCATION, _PREFERRED) if one.what.code == "OK"]
    for one in found:
        requests = sequence(one.what.request, "container_requests")
        responses = sequence(one.what.response, "container_responses")
        if len(requests) != len(responses):
            seen = f"{len(responses)} responses for {len(requests)} containers"
            return failed("one response for each container", seen, one.number)
        for request, response in zip(requests, responses, strict=True):
            if wrong := next(_wrong(request, texts(response, "deviceIDs")), None):
                return failed(*wrong, one.number)
    if not found and (lacking := _lacking(evidence, "get_preferred_allocation_available")):
        return lacking
    if not found:
        return not_tested("GetPreferredAllocation did not succeed")
    return passed(f"{len(found)} answers as requested", *(one.number for one in found))


def _lacking(evidence: Evidence, option: str) -> Finding | None:
    """Not applicable if the plugin does not advertise the call, or lists no healthy device."""
    if answer := lacks_option(evidence, option):
        return not_applicable(f"the plugin does not set {option}", answer.number)
    if listed := without_healthy_device(evidence):
        return not_applicable("the plugin lists no healthy device", listed.number)
    return None


def _wrong(request: Any, chosen: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """What was expected and what was seen, for each mistake in the chosen devices."""
    available, included = texts(request, "available_deviceIDs"), texts(request, "must_include_deviceIDs")
    size = at(request, "allocation_size")
    if others := [one for one in chosen if one not in available]:
        yield f"devices of {', '.join(available)}", f"{others[0]}, which is not available"
    if missing := [one for one in included if one not in chosen]:
        yield f"{missing[0]} among the devices", f"{', '.join(chosen) or 'no device'}"
    if len(set(chosen)) != len(chosen):
        yield "each device once", ", ".join(chosen)
    if len(chosen) != size:
        yield f"{size} devices", f"{len(chosen)} devices: {', '.join(chosen) or 'none'}"


@resource_check(
    "DEVPLUGIN-18",
    "container-start",
    fix="Implement PreStartContainer, or set pre_start_required to false.",
    reads=_READS,
)
def required_pre_start_is_served(evidence: Evidence) -> Finding:
    """PreStartContainer succeeds for an allocated device."""
    found = calls(evidence, PRE_START_CONTAINER, "container-start")
    for one in found:
        if one.what.code != "OK":
            return failed("PreStartContainer succeeds", outcome(one.what), one.number)
    if not found and (lacking := _lacking(evidence, "pre_start_required")):
        return lacking
    if not found:
        return not_tested("PreStartContainer was not called")
    return passed("PreStartContainer succeeded", found[0].number)


# Checks of how the process of a device plugin runs and ends.

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
    reads=(
        *("plugin-registration", "list-and-watch", "allocation", "preferred-allocation", "container-start"),
        "plugin-fault-plan",
    ),
)
def plugin_runs_until_it_is_stopped(evidence: Evidence) -> Finding:
    """The process does not end before a signal, except after a restart of the kubelet."""
    if ended := next(plugin_crashes(evidence, "main", "restarted", "planned"), None):
        seen = f"in experiment {ended.experiment}, {exit_text(ended.what)}"
        return failed("the plugin runs until it gets a signal", seen, ended.number)
    started = next((one for one in evidence.of(ProcessStarted) if one.what.process == "main"), None)
    sent = _signal(evidence, "SIGTERM")
    if started is None or sent is None:
        return not_tested("the plugin was not watched from its start to its end")
    return passed(f"the plugin ran for {sent.at - started.at:.0f} s until SIGTERM", started.number, sent.number)


def _signal(evidence: Evidence, name: str) -> Observation[SignalSent] | None:
    return next((one for one in evidence.of(SignalSent, _END) if one.what.signal == name), None)
