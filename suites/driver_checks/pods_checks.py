"""Checks of Pods with claims for the driver: they start, and show what the driver reports."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from drahealth.manager.device_status import cut
from drahealth.manager.profile import KEP
from drahealth.proto.events import CdiSpecsRead, EventSeen, FaultCleared, FaultInjected, StatusSeen, StreamClosed
from drahealth.proto.values import Health
from drahealth.suites.driver_checks.cdi_specs import defined_in
from drahealth.suites.driver_checks.check import check
from drahealth.suites.driver_checks.evidence import Evidence, Observation
from drahealth.suites.driver_checks.observed import Device, get_info, is_done, named, texts
from drahealth.suites.driver_checks.observed_health import Step, adapter_cause, began, deadline, failed_adapter
from drahealth.suites.driver_checks.observed_pods import PodRun, Reports, Shown, pod_runs, resources
from drahealth.suites.driver_checks.profile.faults import MARGIN
from drahealth.suites.driver_checks.verdicts import (
    Finding,
    failed,
    not_applicable,
    not_tested,
    passed,
    strongest,
    worst,
)

# Checks of Pods with claims for the driver: they start, show what the driver reported, and end.

LATE = {
    "pod-status": 5.0,
    "kubelet-pod-status": 10.0,
    "pod-faults": 5.0,
    "kubelet-pod-faults": 10.0,
    "plugin-pod-status": 5.0,
    "plugin-pod-faults": 5.0,
    "plugin-kubelet-pod": 10.0,
}
"""Seconds from a report, or from the end of a timeout, to the Pod status. The reference syncs a Pod every 3 s, and the
real kubelet every 6 to 9 s."""
_REFERENCE, _KUBELET = "pod-status", "kubelet-pod-status"


PodJudge = Callable[[Evidence, PodRun], Finding]


def pod_check(requirement: str, kubelet_requirement: str, fix: str) -> Callable[[PodJudge], PodJudge]:
    """Registers a check of the Pod on the reference, and one of that on a real kubelet, if a requirement binds it."""

    def register(judge: PodJudge) -> PodJudge:
        name = judge.__name__
        _register(judge, name, requirement, _REFERENCE, fix)
        if kubelet_requirement:
            _register(judge, f"kubelet_{name}", kubelet_requirement, _KUBELET, fix)
        return judge

    return register


def _register(judge: PodJudge, name: str, requirement: str, experiment: str, fix: str) -> None:
    def whole(evidence: Evidence) -> Finding:
        found = pod_runs(evidence, experiment)
        return judge(evidence, found[0]) if found else not_tested("no Pod was created")

    whole.__name__ = name
    check(requirement, experiment, fix=fix)(whole)


@pod_check(
    "POD-01",
    "POD-11",
    fix="Answer NodePrepareResources without an error, even while a health stream is open.",
)
def pod_with_a_claim_starts(evidence: Evidence, pod: PodRun) -> Finding:
    """The Pod has run."""
    if pod.running:
        return passed("the Pod ran", pod.created.number, pod.running[0].number)
    prepares = [call for call in pod.calls if call.kind == "prepare"]
    problems = [(call, call.problem(uid)) for call in prepares for uid in call.claims if call.problem(uid)]
    if not pod.delete_requested:
        return not_tested("the run ended before the Pod could start", pod.created.number)
    if not problems:
        last, events = pod.statuses[-1:], evidence.of(EventSeen, pod.experiment)
        mine = (one for one in events if one.what.uid == pod.created.what.uid)
        warnings = [one for one in mine if one.what.type == "Warning"]
        seen = f"its last phase is {last[0].what.phase}" if last else "it has no status"
        seen += f"; {warnings[-1].what.reason}: {warnings[-1].what.message}" if warnings else ""
        records = (*_prepares(pod), *(one.number for one in last), *(one.number for one in warnings))
        return failed("a running Pod", seen, pod.created.number, *records)
    call, problem = problems[-1]
    return failed("a running Pod", f"NodePrepareResources: {problem}", pod.created.number, call.number)


@pod_check(
    "POD-02",
    "POD-12",
    fix="For each allocated device, return its pool, its name and its request from NodePrepareResources.",
)
def pod_status_lists_allocated_devices(evidence: Evidence, pod: PodRun) -> Finding:
    """The status of the running Pod lists each allocated device, if the driver has health to show."""
    if not pod.running:
        return not_tested("the Pod did not run", pod.created.number)
    last = pod.running[-1]
    missing = [(driver, device) for driver, device in pod.allocated if not pod.shown(last.what, driver, device)]
    if missing and not pod.reports and (absent := _advertises_none(evidence, pod, KEP.health_apis)):
        return absent
    if missing:
        listed = ", ".join(one.resource_id for one in resources(last.what)) or "no device"
        expected = ", ".join(pod.id_of(*one) for one in missing)
        return failed(f"{expected} in the Pod status", f"the Pod status lists {listed}", *_prepares(pod), last.number)
    return passed(f"lists {named([device for _, device in pod.allocated])}", last.number)


@pod_check(
    "POD-03",
    "POD-13",
    fix="Report each device with the pool name and the device name from its ResourceSlice. Continue to report it while "
    "it is prepared.",
)
def pod_status_shows_reported_health(evidence: Evidence, pod: PodRun) -> Finding:
    """The status shows each report that is valid for some seconds, and at the end the last report.

    A kubelet shows devices with the same ID as one: only the first of them is judged.
    """
    return _without_health(evidence, pod) or shows_reports(pod)


def shows_reports(pod: PodRun) -> Finding:
    """Whether the status shows each report that is valid for some seconds, and at the end the last one."""
    if not pod.running:
        return not_tested("the Pod did not run", pod.created.number)
    seen: list[int] = []
    for driver, device in _with_different_ids(pod):
        if pod.shown(pod.running[-1].what, driver, device) is None:
            continue
        reports = pod.reports.get(device, [])
        if not reports:
            others = named(set(pod.reports)) if pod.reports else "no device"
            return failed(f"a report of {device}", f"reported: {others}", pod.running[-1].number)
        for sample in _samples(reports, pod):
            shown = _at(pod, driver, device, sample.time)
            if shown and shown[0] != sample.expected:
                expected = f"{device} {sample.expected} in the Pod status"
                return failed(expected, f"{device} {shown[0]}", sample.record, shown[1])
            seen += [sample.record, shown[1]] if shown else []
    if not seen:
        return not_tested(
            "for no device in the Pod status did the reported health and message stay unchanged long enough",
            pod.created.number,
        )
    return passed("the Pod status shows what was reported", *seen[:10])


@pod_check(
    "POD-04",
    "POD-14",
    fix="For each prepared claim, answer NodeUnprepareResources without an error.",
)
def deleted_pod_ends(evidence: Evidence, pod: PodRun) -> Finding:
    """The deleted Pod is gone after its claims were unprepared."""
    if not pod.running:
        return not_tested("the Pod did not run", pod.created.number)
    if not pod.delete_requested:
        return not_tested("the run ended before the Pod was deleted", pod.created.number)
    unprepares = [call for call in pod.calls if call.kind == "unprepare"]
    records = (pod.delete_requested.number, *(call.number for call in unprepares))
    if pod.deleted:
        return passed("the Pod is gone", *records, pod.deleted.number)
    if not is_done(evidence, pod.experiment):
        return not_tested("the run ended before the Pod was gone", *records)
    problems = [call.problem(uid) for call in unprepares for uid in call.claims if call.problem(uid)]
    seen = f"NodeUnprepareResources: {problems[-1]}" if problems else "the Pod still exists"
    return failed("the deleted Pod no longer exists", seen, *records)


@pod_check(
    "POD-05",
    "",
    fix="Write the CDI spec before NodePrepareResources returns, and keep it until the claim is unprepared.",
)
def cdi_devices_exist_while_the_pod_runs(evidence: Evidence, pod: PodRun) -> Finding:
    """All CDI device IDs of the Pod are in the CDI specs when it has started, and before it is deleted."""
    prepares = [call for call in pod.calls if call.kind == "prepare"]
    ids = {one for call in prepares for uid in call.claims for device in call.devices(uid) for one in device.cdi_ids}
    reads = list(evidence.of(CdiSpecsRead, pod.experiment))
    if not pod.running or not reads:
        return not_tested("the Pod did not run", pod.created.number)
    if not ids:
        return not_applicable("NodePrepareResources returned no CDI device IDs", *_prepares(pod))
    for read in reads:
        if missing := ids - defined_in(read.what):
            seen = f"without {', '.join(sorted(missing)[:5])}"
            return failed(f"CDI specs with {', '.join(sorted(ids)[:5])}", seen, *_prepares(pod), read.number)
    return passed("the CDI specs have all CDI devices of the Pod", *(read.number for read in reads))


def _prepares(pod: PodRun) -> tuple[int, ...]:
    return tuple(call.number for call in pod.calls if call.kind == "prepare")


def _with_different_ids(pod: PodRun) -> list[tuple[str, Device]]:
    """The allocated devices; of those with the same ID in the status, the first one."""
    found: dict[str, tuple[str, Device]] = {}
    for driver, device in pod.allocated:
        found.setdefault(pod.id_of(driver, device), (driver, device))
    return list(found.values())


def _without_health(evidence: Evidence, pod: PodRun) -> Finding | None:
    """Not applicable, if the driver advertises no health API of the kubelet, or serves none."""
    if absent := _advertises_none(evidence, pod, pod.profile.health_apis):
        return absent
    closed = [one for one in evidence.of(StreamClosed, pod.experiment) if one.what.code == "UNIMPLEMENTED"]
    return not_applicable("the health API answers Unimplemented", closed[-1].number) if closed else None


def _advertises_none(evidence: Evidence, pod: PodRun, health_apis: Iterable[str]) -> Finding | None:
    """Not applicable, if the driver advertises none of these health APIs."""
    info = next((one for one in get_info(evidence, pod.experiment) if one.what.code == "OK"), None)
    if info is None or set(texts(info.what.response, "supported_versions")) & set(health_apis):
        return None
    return not_applicable("health is not advertised", info.number)


@dataclass(frozen=True, slots=True)
class _Sample:
    """What the Pod status must show at a time, because of a report."""

    time: float
    expected: Shown
    record: int


def _samples(reports: Reports, pod: PodRun) -> list[_Sample]:
    """A sample after each report that no other one contradicts for some seconds; and one at the end."""
    start, late = pod.running[0].at, LATE[pod.experiment]
    found = []
    for at, number, reported in reports:
        time = max(at, start) + late
        if time <= pod.end:
            found.append((time, number, reported))
    before = [one for one in reports if one[0] <= pod.end - late]
    found += [(pod.end, before[-1][1], before[-1][2])] if before else []
    valid = (sample for sample in found if _stays(reports, sample[0] - late, sample[0], sample[2]))
    return [
        _Sample(time, Shown(shown.health, cut(shown.message, pod.profile)), number) for time, number, shown in valid
    ]


def _stays(reports: Reports, start: float, end: float, value: Shown) -> bool:
    """Whether the last report until the start, and all others until the end, have this value."""
    before = [one for at, _, one in reports if at <= start]
    return before[-1:] == [value] and all(one == value for at, _, one in reports if start < at <= end)


def _at(pod: PodRun, driver: str, device: Device, time: float) -> tuple[Shown, int] | None:
    """What the status shows of a device at a time, with its record; None if it did not list the device then."""
    before = [one for one in pod.running if one.at <= time]
    shown = pod.shown(before[-1].what, driver, device) if before else None
    return (shown, before[-1].number) if shown else None


# Checks of what a Pod shows while drahealth breaks and heals its devices.

_FIX = (
    "Report a broken device with the pool name and the device name that NodePrepareResources returned. Report it even "
    "while it is prepared."
)


@check("POD-06", "pod-faults", fix=_FIX)
def fault_appears_in_the_pod_status(evidence: Evidence) -> Finding:
    """The Pod status shows each break with the declared health, and each heal as Healthy."""
    return judged(evidence, pod_runs(evidence, "pod-faults"))


@check("POD-15", "kubelet-pod-faults", fix=_FIX)
def kubelet_fault_appears_in_the_pod_status(evidence: Evidence) -> Finding:
    """The same on a real kubelet."""
    return judged(evidence, pod_runs(evidence, "kubelet-pod-faults"))


def judged(evidence: Evidence, pods: Sequence[PodRun]) -> Finding:
    """The worst finding of all steps, in the devices of the first Pod."""
    if not pods or not pods[0].running:
        return not_tested("the Pod did not run")
    pod = pods[0]
    experiment = pod.experiment
    breaks = [one for one in evidence.of(FaultInjected, experiment) if one.what.step == "break"]
    steps: list[Step] = sorted([*breaks, *evidence.of(FaultCleared, experiment)], key=lambda one: one.at)
    if not breaks:
        return not_tested("no fault was caused", pod.created.number)
    grade = strongest(one.what.grade for one in breaks)
    end = max(one.at for one in evidence.records if one.experiment == experiment)
    return replace(worst([_step(pod, step, steps, end) for step in steps]), grade=grade)


def _step(pod: PodRun, step: Step, steps: Sequence[Step], end: float) -> Finding:
    """The finding of one step; `end` is the time of the last record."""
    device = Device(step.what.pool, step.what.device)
    about = f"{device}, fault {step.what.fault}"
    if problem := failed_adapter(step, about):
        return problem
    wanted = _wanted(pod, step)
    shown, late = _first(pod, step, device, wanted), LATE[pod.experiment]
    if shown:
        return passed(
            f"{about}: {wanted} in the Pod status after {max(shown.at - step.at, 0):.1f} s", step.number, shown.number
        )
    if _is_evicted(pod, step, steps):
        return not_applicable(f"{about}: Kubernetes evicted the Pod because of the taint NoExecute", step.number)
    reported = _reported(pod, step, wanted)
    others = {one for one in reported - {device} if _before(pod.reports[one], step) != wanted}
    cause = adapter_cause(device, others, shown=device in reported)
    if not reported:
        return not_tested(f"{about}: the driver reported no device as {wanted} after it{cause}", step.number)
    if (broken := _break_of(step, steps)) and not _first(pod, broken, device, _wanted(pod, broken)):
        return not_tested(f"{about}: the Pod status did not show the break", step.number)
    if end < deadline(step) + late:
        return not_tested(f"{about}: the Pod status was not watched long enough", step.number)
    seen = f"{about}: not {wanted} in the Pod status{'' if device in reported else cause}"
    if isinstance(step.what, FaultInjected) and step.what.on_no_effect == "NOT_TESTED":
        return not_tested(seen, step.number)
    return failed(f"{wanted} within {step.what.settle + MARGIN + late:g} s", seen, step.number)


def _wanted(pod: PodRun, step: Step) -> str:
    """The health that the Pod status must show after the step."""
    if isinstance(step.what, FaultCleared):
        return str(Health.HEALTHY)
    # Device plugins have no word for an unknown health.
    return str(Health.UNHEALTHY) if pod.by_resource and step.what.health != Health.HEALTHY else step.what.health


def _is_evicted(pod: PodRun, step: Step, steps: Sequence[Step]) -> bool:
    """Whether the Pod was deleted by another than drahealth before the limit of a step, after a taint NoExecute."""
    if pod.deleted is None or (pod.delete_requested and pod.delete_requested.at <= pod.deleted.at):
        return False
    limit = min(pod.deleted.at, deadline(step) + LATE[pod.experiment])
    breaks = (one for one in steps if isinstance(one.what, FaultInjected) and began(one) <= limit)
    return pod.deleted.at <= limit and any(one.what.taint.endswith(":NoExecute") for one in breaks)


def _reported(pod: PodRun, step: Step, wanted: str) -> set[Device]:
    """The devices that a report after the step had with the health, of any name: a wrong name is the driver's fault."""
    return {
        device
        for device, reports in pod.reports.items()
        if any(at >= began(step) and str(shown.health) == wanted for at, _, shown in reports)
    }


def _before(reports: Reports, step: Step) -> str:
    """The last health before a step; "" if there is none."""
    return next((str(shown.health) for at, _, shown in reversed(reports) if at < began(step)), "")


def _break_of(step: Step, steps: Sequence[Step]) -> "Observation[FaultInjected] | None":
    """The break that a heal ends; None for a break."""
    if isinstance(step.what, FaultInjected):
        return None
    earlier = [one for one in steps if one.at < step.at and isinstance(one.what, FaultInjected)]
    mine = [one for one in earlier if (one.what.fault, one.what.device) == (step.what.fault, step.what.device)]
    return mine[-1] if mine else None


def _first(pod: PodRun, step: Step, device: Device, wanted: str) -> Observation[StatusSeen] | None:
    """The first status since the begin of the step that shows the health in time."""
    driver = next((driver for driver, one in pod.allocated if one == device), "")
    limit = deadline(step) + LATE[pod.experiment]
    for one in pod.running:
        shown = pod.shown(one.what, driver, device) if began(step) <= one.at <= limit else None
        if shown and str(shown.health) == wanted:
            return one
    return None
