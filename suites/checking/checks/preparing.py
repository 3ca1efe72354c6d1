"""Checks of NodePrepareResources and NodeUnprepareResources."""

from collections.abc import Iterable

from drahealth.proto.events import ClaimAllocated
from drahealth.suites.checking.checks.registry import check
from drahealth.suites.checking.evidence import Evidence, Observation
from drahealth.suites.checking.observed.claims import (
    Answered,
    ClaimCall,
    Step,
    allocated,
    allocations,
    claim_calls,
    is_admin_access,
    steps,
)
from drahealth.suites.checking.observed.devices import Device, named, published
from drahealth.suites.checking.observed.plain import text
from drahealth.suites.checking.observed.registrations import driver_name
from drahealth.suites.checking.verdicts import Finding, failed, not_applicable, not_tested, passed, static

_ONCE_PREPARED = "Store what was prepared for each claim UID, and return it again for the same claim."
_ONCE_UNPREPARED = "Return success for a claim UID that is not prepared: kubelets repeat the call."
_PERSISTENT = "Store prepared claims in a file of the plugin directory, and read it at the start."

Claims = dict[str, Observation[ClaimAllocated]]


def _answers(devices: Iterable[Answered]) -> str:
    return "; ".join(
        f"{one.device} for {', '.join(one.requests) or 'all requests'} with {', '.join(one.cdi_ids) or 'no CDI device'}"
        for one in sorted(devices, key=lambda one: one.device)
    )


def _same(one: Iterable[Answered], other: Iterable[Answered]) -> bool:
    def known(devices: Iterable[Answered]) -> list[tuple[Device, frozenset[str], tuple[str, ...]]]:
        return sorted(((d.device, frozenset(d.requests), d.cdi_ids) for d in devices), key=repr)

    return known(one) == known(other)


def _prepared_again(again: list[Step], first: str) -> Finding:
    """Whether prepared claims were prepared again with the same devices."""
    for step in again:
        if step.problem:
            return failed("a second NodePrepareResources of the claim succeeds", step.problem, step.number)
        if not _same(step.devices, step.held or ()):
            return failed(f"the same devices: {_answers(step.held or ())}", _answers(step.devices), step.number)
    if not again:
        return not_tested(first)
    return passed(f"the same devices: {_answers(again[0].devices)}", *(step.number for step in again))


def _unprepared(calls: list[Step], expected: str, otherwise: str) -> Finding:
    """Whether these unprepare calls succeeded."""
    for step in calls:
        if step.problem:
            return failed(expected, step.problem, step.number)
    if not calls:
        return not_tested(otherwise)
    return passed("NodeUnprepareResources succeeded", *(step.number for step in calls))


def _first_problem(evidence: Evidence, experiment: str) -> str:
    """Why there is no second call: the first one failed, or was not made."""
    problems = (f"no claim was prepared: {one.problem}" for one in steps(evidence, experiment) if one.problem)
    return next(problems, "no claim was prepared and called again")


@check("PLUGIN-05", "claims", fix=_ONCE_PREPARED)
def second_prepare_returns_the_same_devices(evidence: Evidence) -> Finding:
    """A prepared claim is prepared again, with the same answer."""
    again = [one for one in steps(evidence, "claims") if one.call.kind == "prepare" and one.held is not None]
    return _prepared_again(again, _first_problem(evidence, "claims"))


@check("PLUGIN-06", "driver-restart", fix=_PERSISTENT)
def restarted_driver_returns_the_same_devices(evidence: Evidence) -> Finding:
    """A claim that was prepared before the restart is prepared again, with the same answer."""
    again = [one for one in steps(evidence, "driver-restart") if one.call.kind == "prepare" and one.held is not None]
    return _prepared_again(again, _first_problem(evidence, "driver-restart"))


@check("PLUGIN-07", "claims", fix=_ONCE_UNPREPARED)
def second_unprepare_succeeds(evidence: Evidence) -> Finding:
    """An unprepared claim is unprepared once more."""
    found = [one for one in steps(evidence, "claims") if one.call.kind == "unprepare" and one.known]
    expected = "NodeUnprepareResources succeeds, also for the second time"
    if broken := next((one for one in found if one.problem), None):
        return failed(expected, broken.problem, broken.number)
    again = [one for one in found if one.held is None]
    return _unprepared(again, expected, "no claim was unprepared twice")


@check("PLUGIN-08", "claims", fix=_ONCE_UNPREPARED)
def unknown_claim_is_unprepared(evidence: Evidence) -> Finding:
    """A claim that was never prepared is unprepared."""
    known = allocations(evidence, "claims")
    found = [
        one
        for one in steps(evidence, "claims")
        if one.call.kind == "unprepare" and not one.known and one.uid not in known
    ]
    return _unprepared(found, "NodeUnprepareResources succeeds for an unknown claim", "no unknown claim was unprepared")


@check("PLUGIN-09", "driver-restart", fix=_PERSISTENT)
def restarted_driver_unprepares_its_claims(evidence: Evidence) -> Finding:
    """A claim that was prepared before the restart is unprepared after it."""
    found = [one for one in steps(evidence, "driver-restart") if one.call.kind == "unprepare" and one.known]
    expected = "NodeUnprepareResources succeeds for a claim that was prepared before the restart"
    return _unprepared(found, expected, _first_problem(evidence, "driver-restart"))


@check(
    "PLUGIN-10",
    "claims",
    fix="Return a result for each claim UID of the request, and prepare each claim whatever the others are.",
)
def each_claim_of_a_call_has_a_result(evidence: Evidence) -> Finding:
    """Answers to calls with several claims have a result for each; a claim that was prepared alone has no error."""
    alone = _prepared_alone(evidence)
    found = [call for call in claim_calls(evidence, "claims") if len(set(call.claims)) > 1]
    answered = [call for call in found if call.call.code == "OK"]
    for call in answered:
        if wrong := _wrong_results(call, alone):
            return failed(*wrong, call.number)
    if answered:
        return passed("each claim has a result", *(call.number for call in answered))
    if found:
        seen = f"the driver answered {len(found)} calls with an error for the whole call, such as "
        return static(seen + found[0].problem(found[0].claims[0]), *(call.number for call in found))
    return not_tested("no call had several claims")


def _prepared_alone(evidence: Evidence) -> set[str]:
    """The claims that were prepared by a call for them only."""
    found = (one for one in steps(evidence, "claims") if one.call.kind == "prepare" and not one.problem)
    return {one.uid for one in found if len(set(one.call.claims)) == 1}


def _wrong_results(call: ClaimCall, alone: set[str]) -> tuple[str, str] | None:
    """What was expected and seen of an answer to several claims."""
    if missing := [uid for uid in call.claims if not call.has_result(uid)]:
        return f"a result for each of {len(set(call.claims))} claims", f"no result for {', '.join(sorted(missing))}"
    if call.kind == "prepare" and (broken := [uid for uid in call.claims if uid in alone and call.problem(uid)]):
        return f"claim {broken[0]} is prepared, whatever the other claims are", call.problem(broken[0])
    return None


@check(
    "PLUGIN-23",
    "claims",
    fix="Put the error of a claim into `error` of its own result, and return no gRPC error.",
)
def error_of_a_claim_is_in_its_result(evidence: Evidence) -> Finding:
    """A call with a claim that can be prepared, and another one that cannot, succeeds."""
    alone = _prepared_alone(evidence)
    found = [
        call
        for call in claim_calls(evidence, "claims")
        if call.kind == "prepare" and len(set(call.claims)) > 1 and alone & set(call.claims)
    ]
    for call in found:
        if call.call.code != "OK":
            return failed("an error in the result of the claim", call.problem(call.claims[0]), call.number)
    refused = [call for call in found if any(map(call.problem, call.claims))]
    if refused:
        return passed("the error is in the result of its claim", *(call.number for call in refused))
    if found:
        return static("the driver refused no claim", *(call.number for call in found))
    return not_tested("no call had several claims, one of which was prepared before")


@check(
    "PLUGIN-11",
    "claims",
    fix="Copy pool, device and request of each result of `status.allocation.devices.results` into the answer.",
)
def answers_name_allocated_devices(evidence: Evidence) -> Finding:
    """Pool, device and requests of each answered device are in the allocation of its claim."""
    claims, driver = allocations(evidence, "claims"), driver_name(evidence)
    records = []
    for step in steps(evidence, "claims"):
        if step.call.kind == "unprepare" or step.problem or step.uid not in claims:
            continue
        claim = claims[step.uid]
        results = allocated(claim.what, driver)
        for one in step.devices:
            if one.device not in results:
                expected = f"devices of the allocation: {named(frozenset(results))}"
                return failed(expected, f"device {one.device}", claim.number, step.number)
            requests = {name for result in results[one.device] for name in _request_names(text(result, "request"))}
            if wrong := set(one.requests) - requests:
                expected = f"{one.device} for requests {', '.join(sorted(requests))}"
                return failed(expected, f"request {sorted(wrong)[0]!r}", claim.number, step.number)
        records += [step.number] if step.devices else []
    if not records:
        return not_tested("no answer to NodePrepareResources had a device")
    return passed("each device is in its claim's allocation", *records)


def _request_names(request: str) -> tuple[str, str]:
    """A result of a subrequest may be answered with the name of its request."""
    return request, request.partition("/")[0]


@check(
    "PLUGIN-22",
    "claims",
    fix="Return each allocated device from NodePrepareResources, also without CDI device IDs.",
)
def all_allocated_devices_are_returned(evidence: Evidence) -> Finding:
    """No allocated device of this driver is missing in the answer."""
    claims, driver = allocations(evidence, "claims"), driver_name(evidence)
    records = []
    for step in steps(evidence, "claims"):
        if step.call.kind == "unprepare" or step.problem or step.uid not in claims:
            continue
        claim = claims[step.uid]
        expected = frozenset(allocated(claim.what, driver))
        if missing := expected - {one.device for one in step.devices}:
            return failed(f"devices {named(expected)}", f"without {named(missing)}", claim.number, step.number)
        records.append(step.number)
    return passed("each allocated device is returned", *records) if records else not_tested("no claim was prepared")


@check(
    "PLUGIN-13",
    "claims",
    fix="Prepare each device that a ResourceSlice lists. If the driver needs another kind of claim, give it one with "
    "`--claim FILE`.",
)
def published_device_can_be_prepared(evidence: Evidence) -> Finding:
    """The first NodePrepareResources of a claim succeeds while no other claim holds its devices."""
    claims, driver, slices = allocations(evidence, "claims"), driver_name(evidence), published(evidence)
    records = []
    for step in steps(evidence, "claims"):
        if step.call.kind == "unprepare" or step.uid not in claims or step.held is not None:
            continue
        wanted = frozenset(allocated(claims[step.uid].what, driver))
        if slices.ever and not wanted <= slices.ever:
            continue
        if wanted & _held_devices(step, claims, driver):
            continue  # the driver should refuse it
        if step.problem and len(set(step.call.claims)) == 1:
            expected = f"NodePrepareResources succeeds for {named(wanted)}"
            return failed(expected, step.problem, claims[step.uid].number, step.number)
        records += [] if step.problem else [step.number]
    return passed("claims were prepared", *records) if records else not_tested("no claim was prepared")


@check(
    "PLUGIN-19",
    "claims",
    fix="Compare the allocated devices with those of all prepared claims, and return an error for the claim.",
)
def device_of_another_claim_is_refused(evidence: Evidence) -> Finding:
    """A claim whose device another claim holds gets an error."""
    claims, driver, slices = allocations(evidence, "claims"), driver_name(evidence), published(evidence)
    excused = None
    for step in steps(evidence, "claims"):
        if step.call.kind == "unprepare" or step.uid not in claims or step.held is not None:
            continue
        wanted = allocated(claims[step.uid].what, driver)
        both = wanted.keys() & _held_devices(step, claims, driver)
        if not both:
            continue
        device = min(both)
        holders = [
            claims[uid] for uid in step.others if uid in claims and device in allocated(claims[uid].what, driver)
        ]
        records = (*(one.number for one in holders), claims[step.uid].number, step.number)
        results = [result for one in (*holders, claims[step.uid]) for result in allocated(one.what, driver)[device]]
        if any(map(is_admin_access, results)):
            excused = not_applicable(f"{device} was allocated with admin access", *records)
        elif slices.allows_multiple_allocations(device):
            excused = not_applicable(f"{device} allows multiple allocations", *slices.record, *records)
        elif step.problem:
            return passed(f"refused: {step.problem}", *records)
        else:
            return failed(f"an error, because {device} is prepared for another claim", "no error", *records)
    return excused or not_tested("no claim was prepared whose device another claim held")


def _held_devices(step: Step, claims: Claims, driver: str) -> set[Device]:
    """The allocated devices of the other claims that were prepared at that time."""
    return {device for uid in step.others if uid in claims for device in allocated(claims[uid].what, driver)}
