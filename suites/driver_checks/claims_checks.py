"""Checks of prepared and unprepared claims: calls, answers, and CDI devices."""

from collections.abc import Iterable, Iterator

from drahealth.proto.events import CdiSpecsRead, ClaimAllocated, FaultCleared
from drahealth.suites.driver_checks.cdi_specs import defined_in, files_text
from drahealth.suites.driver_checks.check import check
from drahealth.suites.driver_checks.evidence import Evidence, Observation
from drahealth.suites.driver_checks.fault_space_checks import PLAN
from drahealth.suites.driver_checks.observed import (
    Answered,
    ClaimCall,
    Device,
    Step,
    allocated,
    allocations,
    claim_calls,
    driver_name,
    is_admin_access,
    named,
    outcome,
    published,
    steps,
    text,
)
from drahealth.suites.driver_checks.observed_health import absence, acted_on, fault_steps, lacks_health
from drahealth.suites.driver_checks.verdicts import Finding, failed, not_applicable, not_tested, passed, static

# Checks of the answers to NodePrepareResources: a result for each claim, with the devices of its allocation.


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
    """Each successful prepare of an allocated claim, with the claim and its allocation results of this driver.

    Those of all experiments; those of `claims` first.
    """
    driver = driver_name(evidence)
    for name in dict.fromkeys(["claims", *(one.experiment for one in evidence.of(ClaimAllocated))]):
        claims = allocations(evidence, name)
        for step in steps(evidence, name):
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
    records, empty = [], []
    for claim, results, step in _prepared(evidence):
        main = claim.experiment == "claims"
        empty += [step.number] if main and not step.devices else []
        for one in step.devices:
            if one.device not in results:
                expected = f"devices of the allocation: {named(frozenset(results))}"
                return failed(expected, f"device {one.device}", claim.number, step.number)
            requests = {name for result in results[one.device] for name in _request_names(text(result, "request"))}
            if wrong := set(one.requests) - requests:
                expected = f"{one.device} for requests {', '.join(sorted(requests))}"
                return failed(expected, f"request {sorted(wrong)[0]!r}", claim.number, step.number)
        records += [step.number] if main and step.devices else []
    if not records and empty:
        return not_applicable("the driver returns no devices for its claims", *empty)
    if not records:
        return not_tested("no claim was prepared")
    return passed("each device is in its claim's allocation", *records)


def _request_names(request: str) -> tuple[str, str]:
    """A result of a subrequest may be answered with the name of its request."""
    return request, request.partition("/")[0]


@check(
    "PLUGIN-22",
    "claims",
    fix="Return each allocated device from NodePrepareResources, even if it has no CDI device ID.",
    reads=("services",),
)
def all_allocated_devices_are_returned(evidence: Evidence) -> Finding:
    """No allocated device of this driver is missing in the answer, if the driver has health to show."""
    records = []
    for claim, results, step in _prepared(evidence):
        expected = frozenset(results)
        if missing := expected - {one.device for one in step.devices}:
            if absent := lacks_health(evidence):
                return not_applicable(absent[0], *absent[1], step.number)
            return failed(f"devices {named(expected)}", f"without {named(missing)}", claim.number, step.number)
        records += [step.number] if claim.experiment == "claims" else []
    return passed("each allocated device is returned", *records) if records else not_tested("no claim was prepared")


# Checks of CDI device IDs and CDI specs.

_WITH_CLAIMS = ("claims", "slow-prepare", "slice-deletion", "api-server-down", PLAN, "fault-during-prepare", "idle")
"""The experiments that prepare claims by themselves, in one process of the driver."""


def _prepared_devices(evidence: Evidence) -> list[Step]:
    """The calls that prepared a claim."""
    return [one for one in steps(evidence, "claims") if one.call.kind == "prepare" and not one.problem]


@check(
    "PLUGIN-12",
    "claims",
    fix="Before NodePrepareResources returns, write a valid CDI spec to the CDI directory. The spec must define each "
    "CDI device ID that NodePrepareResources returns.",
    reads=_WITH_CLAIMS[1:],
)
def cdi_device_ids_are_in_a_valid_spec(evidence: Evidence) -> Finding:
    """The CDI device IDs of prepared claims are defined in a valid spec of the CDI directory.

    Also in other experiments that prepare claims.
    """
    prepared, reads = _prepared_devices(evidence), list(evidence.of(CdiSpecsRead, *_WITH_CLAIMS))
    if not prepared:
        return not_tested("no claim was prepared")
    if not any(one.cdi_ids for step in prepared for one in step.devices):
        return not_applicable("the driver returns no CDI device IDs", *(step.number for step in prepared))
    if not reads and not evidence.header.started_by_us:
        return not_applicable("the CDI directory of a running driver is unknown", prepared[0].number)
    judged = [(step, read) for read in reads for step in _held(evidence, read)]
    if not judged:
        return not_tested("the CDI directory was not read after a claim was prepared", prepared[0].number)
    for step, read in judged:
        defined = defined_in(read.what)
        wanted = [name for one in step.devices for name in one.cdi_ids]
        if missing := [name for name in wanted if name not in defined]:
            expected = f"{missing[0]} is defined in a valid CDI spec"
            return failed(expected, files_text(read.what), step.number, read.number)
    names = {name for step, _ in judged for one in step.devices for name in one.cdi_ids}
    return passed(f"defined: {', '.join(sorted(names))}", *dict.fromkeys(read.number for _, read in judged))


def _held(evidence: Evidence, read: Observation[CdiSpecsRead]) -> list[Step]:
    """The last call for each claim that is prepared with CDI device IDs at the time of the read."""
    held: dict[str, Step] = {}
    for step in steps(evidence, read.experiment):
        if step.number > read.number:
            break
        if not step.problem and step.call.kind == "prepare":
            held[step.uid] = step
        elif not step.problem:
            held.pop(step.uid, None)
    return [step for step in held.values() if any(device.cdi_ids for device in step.devices)]


@check(
    "HEALTH-16",
    "services",
    "claims",
    fix="For each device, return first a CDI device ID that no other device has. Return shared IDs after it.",
    reads=("slices", *_WITH_CLAIMS[1:]),
)
def first_cdi_device_id_is_unique(evidence: Evidence) -> Finding:
    """No two devices that a driver process prepares have the same first CDI device ID."""
    if absent := absence(evidence):
        return not_applicable(absent[0], *absent[1])
    for experiment in _WITH_CLAIMS:
        for name, devices in _first_cdi_ids(evidence, experiment).items():
            if len(devices) > 1:
                shown, *hidden = devices
                seen = f"{', '.join(map(str, devices))} have {name}: kubelets up to 1.37 show only {shown}, and not "
                seen += ", ".join(map(str, hidden))
                return failed("a different first CDI device ID for each device", seen, *devices.values())
    first = _first_cdi_ids(evidence, "claims")
    devices = {device: number for found in first.values() for device, number in found.items()}
    if len(devices) > 1:
        return passed(f"first CDI device IDs: {', '.join(sorted(first))}", *devices.values())
    if any(step.devices for step in _prepared_devices(evidence)) and not devices:
        return not_applicable(
            "the driver returns no CDI device IDs", *(step.number for step in _prepared_devices(evidence))
        )
    if len(published(evidence).ever) == 1:
        return not_applicable("the driver publishes one device", *published(evidence).record)
    return not_tested("fewer than two devices were prepared", *devices.values())


def _first_cdi_ids(evidence: Evidence, experiment: str) -> dict[str, dict[Device, int]]:
    """The devices of each first CDI device ID, with the records."""
    first: dict[str, dict[Device, int]] = {}
    for step in steps(evidence, experiment):
        for one in step.devices if step.call.kind == "prepare" and not step.problem else ():
            if one.cdi_ids:
                first.setdefault(one.cdi_ids[0], {}).setdefault(one.device, step.number)
    return first


# Checks of NodePrepareResources and NodeUnprepareResources.

_ONCE_PREPARED = "Store the answer for each claim UID. If a kubelet prepares the claim again, return the same answer."
_ONCE_UNPREPARED = "Return success for a claim that is not prepared, because kubelets can repeat the call."
_PERSISTENT = "Store the prepared claims in a file in the driver's own directory. Read this file at the start."

Claims = dict[str, Observation[ClaimAllocated]]


def _answers(devices: Iterable[Answered]) -> str:
    return "; ".join(
        f"{one.device} for {', '.join(one.requests) or 'all requests'} with {', '.join(one.cdi_ids) or 'no CDI device'}"
        for one in sorted(devices, key=lambda one: one.device)
    )


def _same(one: Iterable[Answered], other: Iterable[Answered]) -> bool:
    """Whether the devices, their requests and their CDI device IDs are the same, in any order."""

    def known(devices: Iterable[Answered]) -> list[tuple[Device, list[str], list[str]]]:
        return sorted((d.device, sorted({*d.requests}), sorted({*d.cdi_ids})) for d in devices)

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
    return next(problems, "there was no second call for a prepared claim")


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


_WITHOUT_RESTART = ("slow-prepare", "fault-during-prepare", "idle", "slice-deletion", PLAN)
"""Other experiments that prepare claims, and unprepare them in the same process of the driver."""
_HEALTHY = ("claims", "driver-restart", "slice-deletion", "api-server-down")
"""Experiments with claims in which no device breaks."""


@check("PLUGIN-07", "claims", fix=_ONCE_UNPREPARED, reads=_WITHOUT_RESTART)
def second_unprepare_succeeds(evidence: Evidence) -> Finding:
    """An unprepared claim is unprepared once more."""
    found = [one for one in steps(evidence, "claims") if one.call.kind == "unprepare" and one.known]
    others = (one for name in _WITHOUT_RESTART for one in steps(evidence, name) if one.call.kind == "unprepare")
    expected = "NodeUnprepareResources succeeds, including the second call for a claim"
    if broken := next((one for one in (*found, *others) if one.known and one.problem), None):
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
    "PLUGIN-13",
    "claims",
    fix="Prepare each device that a ResourceSlice lists. If the driver cannot prepare the claim that drahealth "
    "creates, pass another claim to drahealth with `--claim FILE`.",
    reads=("slices", *_HEALTHY[1:], PLAN, "idle"),
)
def published_device_can_be_prepared(evidence: Evidence) -> Finding:
    """The first NodePrepareResources of a claim succeeds while no other claim holds its devices.

    Also after faults, for each device that has recovered.
    """
    claims, driver, slices = allocations(evidence), driver_name(evidence), published(evidence)
    records = []
    for experiment, step in _calls_of_healthy_devices(evidence):
        if step.call.kind == "unprepare" or step.uid not in claims or step.held is not None:
            continue
        wanted = frozenset(allocated(claims[step.uid].what, driver))
        if slices.ever and experiment == "claims" and not wanted <= slices.ever:
            continue
        if wanted & (_broken(evidence, experiment, step) | _held_devices(step, claims, driver)):
            continue  # the driver should refuse it, or can
        if step.problem and len(set(step.call.claims)) == 1:
            expected = f"NodePrepareResources succeeds for {named(wanted)}"
            return failed(expected, step.problem, claims[step.uid].number, step.number)
        records += [] if step.problem else [step.number]
    return passed("claims were prepared", *records) if records else not_tested("no claim was prepared")


def _calls_of_healthy_devices(evidence: Evidence) -> Iterator[tuple[str, Step]]:
    """Calls with claims, and their experiments; in the plan only those after the last fault.

    Earlier ones come while devices break and recover.
    """
    for name in (*_HEALTHY, "idle"):
        yield from ((name, step) for step in steps(evidence, name))
    if planned := fault_steps(evidence, PLAN):
        yield from ((PLAN, step) for step in steps(evidence, PLAN) if step.number > planned[-1].number)


def _broken(evidence: Evidence, experiment: str, step: Step) -> set[Device]:
    """The devices with a fault at the time of a call; the fault adapter may have failed to clear it."""
    lasts = {acted_on(one): one.what for one in fault_steps(evidence, experiment) if one.number < step.number}
    return {device for device, act in lasts.items() if not isinstance(act, FaultCleared) or act.outcome != "done"}


@check(
    "PLUGIN-19",
    "claims",
    fix="Return an error for a claim if one of its devices is already prepared for another claim.",
    reads=("slices",),
)
def device_of_another_claim_is_refused(evidence: Evidence) -> Finding:
    """A claim whose device another claim holds gets an error."""
    claims, driver, slices = allocations(evidence, "claims"), driver_name(evidence), published(evidence)
    excused = refused = None
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
            refused = refused or passed(f"refused: {step.problem}", *records)
        else:
            return failed(f"an error, because {device} is prepared for another claim", "no error", *records)
    return refused or excused or not_tested("no claim had a device that was prepared for another claim")


def _held_devices(step: Step, claims: Claims, driver: str) -> set[Device]:
    """The allocated devices of the other claims that were prepared at that time."""
    return {device for uid in step.others if uid in claims for device in allocated(claims[uid].what, driver)}
