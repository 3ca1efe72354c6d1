"""Checks of the registration."""

import re

from drahealth.proto.events import GrpcCall, ProcessExited
from drahealth.proto.services import GET_INFO, NOTIFY_REGISTRATION, PREPARE
from drahealth.suites.checking.checks.registry import check
from drahealth.suites.checking.evidence import Evidence
from drahealth.suites.checking.verdicts import Finding, failed, not_tested, passed

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_LIMIT = 63
"""Characters of a driver name, from the DRA API."""


@check(
    "PLUGIN-01",
    "registration",
    fix="Return type DRAPlugin, a DNS subdomain of at most 63 characters as name, and the supported DRA services.",
)
def get_info_describes_a_dra_driver(evidence: Evidence) -> Finding:
    """GetInfo has a valid type, name and list of services."""
    calls = [one for one in evidence.of(GrpcCall, "registration") if f"/{one.what.method}" == GET_INFO.path]
    if not calls:
        return not_tested("GetInfo was not called")
    for call in calls:
        info = call.what.response
        if info is None:
            return failed("GetInfo succeeds", f"GetInfo failed: {call.what.code} {call.what.details}", call.number)
        name, versions = info.get("name", ""), info.get("supported_versions", [])
        if info.get("type") != "DRAPlugin":
            return failed("type DRAPlugin", f"type {info.get('type', '')!r}", call.number)
        if len(name) > _NAME_LIMIT or not _SUBDOMAIN.fullmatch(name):
            return failed(f"a DNS subdomain of at most {_NAME_LIMIT} characters as name", f"name {name!r}", call.number)
        if not set(versions) & PREPARE.keys():
            return failed(f"one of {', '.join(PREPARE)}", f"supported versions {versions}", call.number)
    return passed(f"GetInfo: {calls[0].what.response}", *(call.number for call in calls))


@check(
    "PLUGIN-03",
    "refused-registration",
    fix="Keep the registration socket after a refused registration, or exit so that the Pod restarts.",
)
def refused_driver_can_be_registered_again(evidence: Evidence) -> Finding:
    """After the refusal, either GetInfo is answered again, or the process has exited."""
    calls = [one for one in evidence.of(GrpcCall, "refused-registration") if one.what.code == "OK"]
    refusals = [
        one
        for one in calls
        if f"/{one.what.method}" == NOTIFY_REGISTRATION.path and not one.what.request.get("plugin_registered")
    ]
    if not refusals:
        return not_tested("the registration was not refused")
    refused = refusals[0]
    if again := next((c for c in calls if f"/{c.what.method}" == GET_INFO.path and c.at > refused.at), None):
        return passed("GetInfo was answered after the refusal", refused.number, again.number)
    if ended := next(evidence.of(ProcessExited, "refused-registration"), None):
        return passed(f"the driver exited with code {ended.what.exit_code}", refused.number, ended.number)
    return failed("an answer to GetInfo after the refusal, or an exit", "neither", refused.number)
