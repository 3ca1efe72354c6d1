"""Checks of what a Pod shows while drahealth breaks and heals its devices."""

from collections.abc import Sequence
from dataclasses import replace

from drahealth.proto.events import FaultCleared, FaultInjected, StatusSeen
from drahealth.proto.values import Health
from drahealth.suites.checking.checks.pods import LATE
from drahealth.suites.checking.checks.registry import check
from drahealth.suites.checking.evidence import Evidence, Observation
from drahealth.suites.checking.faults import MARGIN
from drahealth.suites.checking.observed.devices import Device
from drahealth.suites.checking.observed.faults import Step, began, deadline, failed_adapter
from drahealth.suites.checking.observed.pods import PodRun, pod_runs
from drahealth.suites.checking.verdicts import Finding, failed, not_tested, passed, strongest, worst

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
    if not _is_reported(pod, step, wanted):
        return not_tested(f"{about}: the driver reported no device as {wanted} after it", step.number)
    if (broken := _break_of(step, steps)) and not _first(pod, broken, device, _wanted(pod, broken)):
        return not_tested(f"{about}: the Pod status did not show the break", step.number)
    if end < deadline(step) + late:
        return not_tested(f"{about}: the Pod status was not watched long enough", step.number)
    seen = f"{about}: not {wanted} in the Pod status"
    if isinstance(step.what, FaultInjected) and step.what.on_no_effect == "NOT_TESTED":
        return not_tested(seen, step.number)
    return failed(f"{wanted} within {step.what.settle + MARGIN + late:g} s", seen, step.number)


def _wanted(pod: PodRun, step: Step) -> str:
    """The health that the Pod status must show after the step."""
    if isinstance(step.what, FaultCleared):
        return str(Health.HEALTHY)
    # Device plugins have no word for an unknown health.
    return str(Health.UNHEALTHY) if pod.by_resource and step.what.health != Health.HEALTHY else step.what.health


def _is_reported(pod: PodRun, step: Step, wanted: str) -> bool:
    """Whether a report after the step had the health, for a device of any name: a wrong name is the driver's fault."""
    each = (one for reports in pod.reports.values() for one in reports)
    return any(at >= began(step) and str(shown.health) == wanted for at, _, shown in each)


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
