"""Checks of how a device plugin registers."""

from drahealth.proto.events import KubeletSwitched, ProcessExited, RegistrationFailed, SocketRemoved, SocketsListed
from drahealth.proto.quoting import one_line
from drahealth.suites.checking.checks.registry import check
from drahealth.suites.checking.device_plugins.checks.resources import resource_check
from drahealth.suites.checking.device_plugins.observed import Registration, options_calls, registrations
from drahealth.suites.checking.device_plugins.registered import registration_problem
from drahealth.suites.checking.evidence import Evidence, Observation
from drahealth.suites.checking.observed.processes import is_done
from drahealth.suites.checking.observed.registrations import outcome
from drahealth.suites.checking.verdicts import Finding, failed, not_applicable, not_tested, passed

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
    for one in found:
        asked = options_calls(evidence, one.resource, "plugin-registration")
        failures = [call for call in asked if call.what.code != "OK"]
        if failures:
            return failed("GetDevicePluginOptions succeeds", outcome(failures[0].what), failures[0].number)
        if not asked and one.problem:
            return failed("a server at the endpoint, before the plugin registers", one.problem, one.number)
        if asked:
            return passed("GetDevicePluginOptions succeeded during the registration", asked[0].number, one.number)
    return not_tested("there was no valid registration")


@resource_check(
    "DEVPLUGIN-03",
    "plugin-registration",
    fix="In `options` of RegisterRequest, send the options that GetDevicePluginOptions returns.",
)
def options_agree(evidence: Evidence) -> Finding:
    """Register has the options of GetDevicePluginOptions."""
    found = registrations(evidence, "plugin-registration")
    for one in found:
        if one.options is None:
            return not_applicable(
                "the plugin has a registration socket, and does not send options in Register", one.number
            )
        for asked in options_calls(evidence, one.resource, "plugin-registration"):
            answer = asked.what.response
            if asked.what.code == "OK" and answer != one.options:
                seen = f"{one.options or 'no options'} in Register, {answer or 'no options'} in the answer"
                return failed("equal options", seen, one.number, asked.number)
            if asked.what.code == "OK":
                return passed(f"options {answer or 'are all false'}", one.number, asked.number)
    return not_tested("GetDevicePluginOptions was not answered")


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
