"""Checks of the answers to NodePrepareResources: a result for each claim, with the devices of its allocation."""

from collections.abc import Iterator

from drahealth.proto.events import ClaimAllocated
from drahealth.suites.checking.checks.registry import check
from drahealth.suites.checking.evidence import Evidence, Observation
from drahealth.suites.checking.observed.claims import ClaimCall, Step, allocated, allocations, claim_calls, steps
from drahealth.suites.checking.observed.devices import Device, named, published
from drahealth.suites.checking.observed.plain import text
from drahealth.suites.checking.observed.registrations import driver_name, outcome
from drahealth.suites.checking.verdicts import Finding, failed, not_tested, passed, static


@check(
    "PLUGIN-10",
    "claims",
    fix="Return a result for each claim UID of the request, and prepare each claim independently of the other claims.",
)
def each_claim_of_a_call_has_a_result(evidence: Evidence) -> Finding:
    """Answers to calls with several claims have a result for each; claims that can be prepared have no error."""
    preparable = _preparable(evidence)
    several = [call for call in claim_calls(evidence, "claims") if len(set(call.claims)) > 1]
    for call in several:
        if wrong := _wrong_results(call, preparable.get(call.number, frozenset())):
            return failed(*wrong, call.number)
    found = [call for call in several if call.kind == "prepare"]
    if not found:
        return not_tested("no NodePrepareResources call had several claims")
    records = [call.number for call in found]
    if any(call.has_result(uid) and call.problem(uid) for call in found for uid in call.claims):
        return passed("each claim has a result; the error of one claim is not in the other results", *records)
    if any(call.call.code == "OK" for call in found):
        return static("each claim has a result, and no result has an error", *records)
    seen = f"the driver answered {len(found)} calls with an error for the whole call, such as "
    return static(seen + found[0].problem(found[0].claims[0]), *records)


def _preparable(evidence: Evidence) -> dict[int, frozenset[str]]:
    """The claims that nothing keeps from being prepared, by the record of each NodePrepareResources.

    A claim was prepared alone, or all its devices are published and no other claim holds or wants them.
    """
    claims, driver, ever = allocations(evidence, "claims"), driver_name(evidence), published(evidence).ever
    wanted = {uid: frozenset(allocated(claim.what, driver)) for uid, claim in claims.items()}
    alone = _prepared_alone(evidence)
    found: dict[int, frozenset[str]] = {}
    for step in steps(evidence, "claims"):
        if step.call.kind == "unprepare":
            continue
        mine = wanted.get(step.uid, frozenset())
        others = {*step.others, *step.call.claims} - {step.uid}
        is_free = not any(mine & wanted.get(uid, frozenset()) for uid in others)
        if step.uid in alone or (mine and mine <= ever and is_free):
            found[step.number] = found.get(step.number, frozenset()) | {step.uid}
    return found


def _prepared_alone(evidence: Evidence) -> set[str]:
    """The claims that were prepared by a call for them only."""
    found = (one for one in steps(evidence, "claims") if one.call.kind == "prepare" and not one.problem)
    return {one.uid for one in found if len(set(one.call.claims)) == 1}


def _wrong_results(call: ClaimCall, preparable: frozenset[str]) -> tuple[str, str] | None:
    """What was expected and seen of a call for several claims."""
    if call.call.code != "OK":
        if call.kind == "unprepare" or not preparable.issuperset(call.claims):
            return None
        return f"{len(set(call.claims))} claims are prepared, because each of them can be prepared", outcome(call.call)
    if missing := [uid for uid in call.claims if not call.has_result(uid)]:
        return f"a result for each of {len(set(call.claims))} claims", f"no result for {', '.join(sorted(missing))}"
    if broken := [uid for uid in call.claims if uid in preparable and call.problem(uid)]:
        return f"claim {broken[0]} is prepared, even if another claim of the call has an error", call.problem(broken[0])
    return None


@check(
    "PLUGIN-23",
    "claims",
    fix="Put the error of a claim into the field `error` of the result of this claim. Return no gRPC error.",
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
    return not_tested("no call with several claims had a claim that can be prepared")


_Results = dict[Device, list[dict[str, object]]]


def _prepared(evidence: Evidence) -> Iterator[tuple[Observation[ClaimAllocated], _Results, Step]]:
    """Each successful prepare of an allocated claim, with the claim and its allocation results of this driver."""
    claims, driver = allocations(evidence, "claims"), driver_name(evidence)
    for step in steps(evidence, "claims"):
        if step.call.kind == "prepare" and not step.problem and step.uid in claims:
            claim = claims[step.uid]
            yield claim, allocated(claim.what, driver), step


@check(
    "PLUGIN-11",
    "claims",
    fix="For each entry of `status.allocation.devices.results`, copy the pool, the device and the request to the "
    "answer.",
)
def answers_name_allocated_devices(evidence: Evidence) -> Finding:
    """Pool, device and requests of each answered device are in the allocation of its claim."""
    records = []
    for claim, results, step in _prepared(evidence):
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
    fix="Return each allocated device from NodePrepareResources, even if it has no CDI device ID.",
)
def all_allocated_devices_are_returned(evidence: Evidence) -> Finding:
    """No allocated device of this driver is missing in the answer."""
    records = []
    for claim, results, step in _prepared(evidence):
        expected = frozenset(results)
        if missing := expected - {one.device for one in step.devices}:
            return failed(f"devices {named(expected)}", f"without {named(missing)}", claim.number, step.number)
        records.append(step.number)
    return passed("each allocated device is returned", *records) if records else not_tested("no claim was prepared")
