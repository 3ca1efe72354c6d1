"""Checks of the registration, and of how a driver ends."""

import re
from collections.abc import Iterator

from drahealth.proto.events import (
    ChildrenEnded,
    GrpcCall,
    OutputMeasured,
    ProcessExited,
    ProcessStarted,
    RegistrationFailed,
    SignalSent,
    SocketsListed,
)
from drahealth.proto.services import PREPARE
from drahealth.suites.driver_checks.check import check
from drahealth.suites.driver_checks.evidence import Evidence, Observation
from drahealth.suites.driver_checks.observed import (
    Call,
    advertised,
    at,
    children_text,
    crashes,
    described,
    descriptions,
    get_info,
    is_done,
    is_served,
    notified,
    outcome,
    sequence,
    text,
    texts,
)
from drahealth.suites.driver_checks.output_text import exit_text
from drahealth.suites.driver_checks.verdicts import Finding, Verdict, failed, not_applicable, not_tested, passed

# Checks of the registration.

_AGAIN = ("reregistration", "slow-prepare", "idle")
"""Experiments that register a running driver again."""

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
    """GetInfo has a valid type, name and list of services, and the same name at each registration."""
    calls = descriptions(evidence)
    if not calls:
        return not_tested("GetInfo was not called")
    name = text(calls[0].what.response, "name")
    for call in (*calls, *_later_descriptions(evidence)):
        if wrong := _wrong_info(call):
            return failed(*wrong, call.number)
        if (other := text(call.what.response, "name")) != name:
            return failed(f"the name {name!r} at each registration", f"name {other!r}", calls[0].number, call.number)
    return passed(f"GetInfo: {calls[0].what.response}", *(call.number for call in calls))


def _later_descriptions(evidence: Evidence) -> Iterator[Call]:
    """The answers of GetInfo at all sockets where drahealth registered the driver; others are of other plugins."""
    registered = {call.what.endpoint for call in notified(evidence)}
    return (one for one in get_info(evidence) if one.what.code == "OK" and one.what.endpoint in registered)


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
    fix="Create the registration socket in the directory `{registry_dir}`, also after a restart.",
)
def driver_has_a_registration_socket(evidence: Evidence) -> Finding:
    """A driver that drahealth starts creates a socket in the registration directory, each time."""
    calls = list(get_info(evidence, "registration"))
    if calls and (lost := next(_lost_sockets(evidence), None)):
        seen = f"experiment {lost.experiment}: {lost.what.problem}"
        return failed("a registration socket after each start", seen, calls[0].number, lost.number)
    if calls:
        return passed(f"a registration socket for {calls[0].what.endpoint}", calls[0].number)
    missing = next(evidence.of(RegistrationFailed, "registration"), None)
    if missing and evidence.header.started_by_us:
        return failed("a registration socket", missing.what.problem, missing.number)
    return not_tested(missing.what.problem if missing else "drahealth did not wait for a registration socket")


_OTHERWISE_JUDGED = (
    *("registration", *_AGAIN),
    *("refused-registration", "rolling-update", "api-server-down"),
)
"""Experiments in which a missing socket is not one after a plain start; other checks judge them."""


def _lost_sockets(evidence: Evidence) -> Iterator[Observation[RegistrationFailed]]:
    """Where a driver that drahealth had started, and that had not ended, had no registration socket in time."""
    for missing in evidence.of(RegistrationFailed) if evidence.header.started_by_us else ():
        name = missing.experiment
        starts = [one.number for one in evidence.of(ProcessStarted, name) if one.number < missing.number]
        ends = [one.number for one in evidence.of(ProcessExited, name) if one.number < missing.number]
        if name not in _OTHERWISE_JUDGED and starts and starts[-1] > max(ends, default=0):
            yield missing


@check(
    "PLUGIN-21",
    "registration",
    fix="If the kubelet accepts the registration, return an empty response and no error from NotifyRegistrationStatus.",
)
def accepted_registration_is_acknowledged(evidence: Evidence) -> Finding:
    """NotifyRegistrationStatus succeeds after each accepted registration, whatever was done to the driver before."""
    first = list(notified(evidence, "registration"))
    if not first:
        return not_tested("NotifyRegistrationStatus was not called")
    later = (one for one in notified(evidence) if at(one.what.request, "plugin_registered") is True)
    answered = [one for one in later if one.experiment != "registration" and one.what.code not in _NO_ANSWER]
    calls = [*first, *answered]
    for call in calls:
        if call.what.code != "OK":
            seen = f"experiment {call.experiment}: {outcome(call.what)}"
            return failed("NotifyRegistrationStatus succeeds", seen, call.number)
    return passed(f"NotifyRegistrationStatus succeeded {len(calls)} times", *(call.number for call in calls))


_NO_ANSWER = ("UNAVAILABLE", "CANCELLED", "DEADLINE_EXCEEDED")
"""Codes of calls that the driver may not have answered, because an experiment ended it."""


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
    records, uncalled = [info.number], ""
    for version in versions:
        path = PREPARE[version].path
        calls = [one for one in evidence.of(GrpcCall, "services") if f"/{one.what.method}" == path]
        uncalled = uncalled or ("" if calls else version)
        records += [one.number for one in calls]
        for one in calls:
            if not is_served(one.what):
                expected = f"an answer to NodePrepareResources of {version}, because GetInfo lists {version}"
                return failed(expected, outcome(one.what), info.number, one.number)
    if uncalled:
        return not_tested(f"NodePrepareResources of {uncalled} was not called", info.number)
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
    reads=("services", *_AGAIN[1:]),
    fix="Keep the registration socket open after the registration. Answer each call of GetInfo and "
    "NotifyRegistrationStatus.",
)
def driver_registers_again_at_the_same_socket(evidence: Evidence) -> Finding:
    """GetInfo and NotifyRegistrationStatus succeed, and NodePrepareResources without claims is answered.

    Also while a claim is prepared, and after a time without a subscriber.
    """
    described_again, accepted = list(get_info(evidence, *_AGAIN)), list(notified(evidence, *_AGAIN))
    paths = {method.path for method in PREPARE.values()}
    prepared = [
        one
        for one in evidence.of(GrpcCall, _AGAIN[0])
        if f"/{one.what.method}" in paths and not sequence(one.what.request, "claims")
    ]
    for one in (*described_again, *accepted):
        if one.what.code != "OK":
            return failed(f"{one.what.method} succeeds after a second registration", outcome(one.what), one.number)
    for one in prepared:
        if not is_served(one.what):
            return failed(f"{one.what.method} is answered after a second registration", outcome(one.what), one.number)
    if missing := next(evidence.of(RegistrationFailed, *_AGAIN), None):
        return failed("the registration socket exists while the driver runs", missing.what.problem, missing.number)
    if not (described_again and accepted and prepared):
        return not_tested("the driver was not registered again")
    before = described(evidence)
    for one in described_again:
        if before and at(one.what.response, "name") != at(before.what.response, "name"):
            seen = f"name {at(one.what.response, 'name')!r}"
            return failed(f"name {text(before.what.response, 'name')!r} as before", seen, before.number, one.number)
    return passed("registered again", *(one.number for one in (*described_again, *accepted, *prepared)))


# Checks of how a driver ends.

_MIB = 1024 * 1024
OUTPUT_LIMIT = 10 * _MIB
"""Bytes of output of a process in a minute. Kubelets rotate the log of a container at this size."""


@check(
    "PLUGIN-18",
    "end",
    fix="Handle SIGTERM: stop the gRPC servers, remove the registration socket and the plugin socket, and exit.",
    reads=("api-server-down",),
)
def driver_ends_without_sockets(evidence: Evidence) -> Finding:
    """After SIGTERM the process exits by itself, and no socket remains. Also while its API server is down."""
    found = [_end(evidence, name) for name in ("end", "api-server-down")]
    return found[1] if found[1].verdict is Verdict.FAIL and found[0].verdict is not Verdict.FAIL else found[0]


def _end(evidence: Evidence, experiment: str) -> Finding:
    sent = next((one for one in evidence.of(SignalSent, experiment) if one.what.signal == "SIGTERM"), None)
    if sent is None:
        return not_tested("SIGTERM was not sent")
    later = " while its API server was down" if experiment != "end" else ""
    killed = next((one for one in evidence.of(SignalSent, experiment) if one.what.signal == "SIGKILL"), None)
    if killed and killed.number > sent.number:
        seconds = killed.at - sent.at
        seen = f"the driver still ran {seconds:.0f} s after SIGTERM{later}, and drahealth killed it"
        return failed(f"the driver exits within {seconds:.0f} s after SIGTERM", seen, sent.number, killed.number)
    ended = next((one for one in evidence.of(ProcessExited, experiment) if one.number > sent.number), None)
    listed = next((one for one in evidence.of(SocketsListed, experiment) if one.what.moment == "ended"), None)
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
