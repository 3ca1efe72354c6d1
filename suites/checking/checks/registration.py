"""Checks of the registration."""

import re

from drahealth.proto.events import GrpcCall, ProcessExited, RegistrationFailed
from drahealth.proto.services import PREPARE
from drahealth.suites.checking.checks.registry import check
from drahealth.suites.checking.evidence import Evidence
from drahealth.suites.checking.observed.plain import at, sequence, text, texts
from drahealth.suites.checking.observed.processes import is_done
from drahealth.suites.checking.observed.registrations import (
    Call,
    advertised,
    described,
    descriptions,
    get_info,
    is_served,
    notified,
    outcome,
)
from drahealth.suites.checking.verdicts import Finding, failed, not_tested, passed

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_LIMIT = 63
"""Characters of a driver name, from the DRA API."""
_ABSOLUTE = ("/", "{", "~")
"""Starts of absolute paths; evidence has `{run_dir}` and `~` in place of host paths."""


@check(
    "PLUGIN-01",
    "registration",
    fix="Return the type DRAPlugin, a name that is a DNS subdomain of at most 63 characters, and the supported "
    "versions of the DRA service.",
)
def get_info_describes_a_dra_driver(evidence: Evidence) -> Finding:
    """GetInfo has a valid type, name and list of services."""
    calls = descriptions(evidence)
    if not calls:
        return not_tested("GetInfo was not called")
    for call in calls:
        if wrong := _wrong_info(call):
            return failed(*wrong, call.number)
    return passed(f"GetInfo: {calls[0].what.response}", *(call.number for call in calls))


def _wrong_info(call: Call) -> tuple[str, str] | None:
    """What was expected, and what was seen."""
    info = call.what.response
    if info is None or call.what.code != "OK":
        return "GetInfo succeeds", f"GetInfo failed: {outcome(call.what)}"
    name, versions = text(info, "name"), texts(info, "supported_versions")
    if text(info, "type") != "DRAPlugin":
        return "type DRAPlugin", f"type {text(info, 'type')!r}"
    if len(name) > _NAME_LIMIT or not _SUBDOMAIN.fullmatch(name):
        return f"a DNS subdomain of at most {_NAME_LIMIT} characters as name", f"name {name!r}"
    endpoint = text(info, "endpoint")
    if endpoint and not endpoint.startswith(_ABSOLUTE):
        return "an absolute path as endpoint, or no endpoint", f"endpoint {endpoint!r}"
    if not set(versions) & PREPARE.keys():
        return f"one of {', '.join(PREPARE)}", f"supported versions {list(versions)}"
    return None


@check(
    "PLUGIN-01",
    "registration",
    fix="Create the registration socket in the directory `{registry_dir}`.",
)
def driver_has_a_registration_socket(evidence: Evidence) -> Finding:
    """A driver that drahealth starts creates a socket in the registration directory."""
    calls = list(get_info(evidence, "registration"))
    if calls:
        return passed(f"a registration socket for {calls[0].what.endpoint}", calls[0].number)
    missing = next(evidence.of(RegistrationFailed, "registration"), None)
    if missing and evidence.header.started_by_us:
        return failed("a registration socket", missing.what.problem, missing.number)
    return not_tested(missing.what.problem if missing else "drahealth did not wait for a registration socket")


@check(
    "PLUGIN-21",
    "registration",
    fix="If the kubelet accepts the registration, return an empty response and no error from NotifyRegistrationStatus.",
)
def accepted_registration_is_acknowledged(evidence: Evidence) -> Finding:
    """NotifyRegistrationStatus succeeds after an accepted registration."""
    calls = list(notified(evidence, "registration"))
    if not calls:
        return not_tested("NotifyRegistrationStatus was not called")
    for call in calls:
        if call.what.code != "OK":
            return failed("NotifyRegistrationStatus succeeds", outcome(call.what), call.number)
    return passed("NotifyRegistrationStatus succeeded", *(call.number for call in calls))


@check(
    "PLUGIN-02",
    "registration",
    "services",
    fix="Serve each version of the DRA service that GetInfo lists, or remove the version from the list.",
)
def advertised_services_are_served(evidence: Evidence) -> Finding:
    """NodePrepareResources without claims is answered for each advertised version."""
    info = described(evidence)
    versions = [version for version in PREPARE if version in advertised(evidence)]
    if info is None or not versions:
        return not_tested("the driver advertised no DRA service")
    records = [info.number]
    for version in versions:
        path = PREPARE[version].path
        calls = [one for one in evidence.of(GrpcCall, "services") if f"/{one.what.method}" == path]
        if not calls:
            return not_tested(f"NodePrepareResources of {version} was not called", info.number)
        records += [one.number for one in calls]
        for one in calls:
            if not is_served(one.what):
                expected = f"an answer to NodePrepareResources of {version}, because GetInfo lists {version}"
                return failed(expected, outcome(one.what), info.number, one.number)
    return passed(f"served: {', '.join(versions)}", *records)


@check(
    "PLUGIN-03",
    "refused-registration",
    fix="If the kubelet refuses the registration, keep the registration socket, or exit so that the kubelet restarts "
    "the driver.",
)
def refused_driver_can_be_registered_again(evidence: Evidence) -> Finding:
    """After the refusal, either GetInfo is answered again, or the process has exited."""
    name = "refused-registration"
    refusals = [one for one in notified(evidence, name) if at(one.what.request, "plugin_registered") is not True]
    if not refusals:
        return not_tested("the registration was not refused")
    refused = refusals[0]
    later = (one for one in get_info(evidence, name) if one.what.code == "OK" and one.number > refused.number)
    if again := next(later, None):
        return passed("GetInfo was answered after the refusal", refused.number, again.number)
    if ended := next(evidence.of(ProcessExited, name), None):
        return passed(f"the driver exited with code {ended.what.exit_code}", refused.number, ended.number)
    if not is_done(evidence, name):
        return not_tested("the driver was not watched long enough after the refusal", refused.number)
    seen = "the driver runs, and does not answer GetInfo"
    return failed("an answer to GetInfo after the refusal, or an exit of the driver", seen, refused.number)


@check(
    "PLUGIN-04",
    "reregistration",
    fix="Keep the registration socket open after the registration. Answer each call of GetInfo and "
    "NotifyRegistrationStatus.",
)
def driver_registers_again_at_the_same_socket(evidence: Evidence) -> Finding:
    """GetInfo and NotifyRegistrationStatus succeed, and NodePrepareResources without claims is answered."""
    name = "reregistration"
    described_again, accepted = list(get_info(evidence, name)), list(notified(evidence, name))
    paths = {method.path for method in PREPARE.values()}
    prepared = [
        one
        for one in evidence.of(GrpcCall, name)
        if f"/{one.what.method}" in paths and not sequence(one.what.request, "claims")
    ]
    for one in (*described_again, *accepted):
        if one.what.code != "OK":
            return failed(f"{one.what.method} succeeds after a second registration", outcome(one.what), one.number)
    for one in prepared:
        if not is_served(one.what):
            return failed(f"{one.what.method} is answered after a second registration", outcome(one.what), one.number)
    if not (described_again and accepted and prepared):
        return not_tested("the driver was not registered again")
    before = described(evidence)
    for one in described_again:
        if before and at(one.what.response, "name") != at(before.what.response, "name"):
            seen = f"name {at(one.what.response, 'name')!r}"
            return failed(f"name {text(before.what.response, 'name')!r} as before", seen, before.number, one.number)
    return passed("registered again", *(one.number for one in (*described_again, *accepted, *prepared)))
