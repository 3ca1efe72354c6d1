"""Checks of NodePrepareResources and NodeUnprepareResources."""

from collections.abc import Iterable

from drahealth.proto.events import ClaimAllocated
from drahealth.suites.checking.checks.registry import check
from drahealth.suites.checking.evidence import Evidence, Observation
from drahealth.suites.checking.observed.claims import (
    Answered,
    Step,
    allocated,
    allocations,
    is_admin_access,
    steps,
)
from drahealth.suites.checking.observed.devices import Device, named, published
from drahealth.suites.checking.observed.registrations import driver_name
from drahealth.suites.checking.verdicts import Finding, failed, not_applicable, not_tested, passed

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


@check("PLUGIN-07", "claims", fix=_ONCE_UNPREPARED)
def second_unprepare_succeeds(evidence: Evidence) -> Finding:
    """An unprepared claim is unprepared once more."""
    found = [one for one in steps(evidence, "claims") if one.call.kind == "unprepare" and one.known]
    expected = "NodeUnprepareResources succeeds, including the second call for a claim"
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
    "PLUGIN-13",
    "claims",
    fix="Prepare each device that a ResourceSlice lists. If the driver cannot prepare the claim that drahealth "
    "creates, pass another claim to drahealth with `--claim FILE`.",
    reads=("slices",),
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
    fix="Return an error for a claim if one of its devices is already prepared for another claim.",
    reads=("slices",),
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
    return excused or not_tested("no claim had a device that was prepared for another claim")


def _held_devices(step: Step, claims: Claims, driver: str) -> set[Device]:
    """The allocated devices of the other claims that were prepared at that time."""
    return {device for uid in step.others if uid in claims for device in allocated(claims[uid].what, driver)}
