"""Checks of Pods with devices of a device plugin."""

from drahealth.proto.events import ListReceived
from drahealth.proto.services import ALLOCATE, GET_PREFERRED_ALLOCATION, PRE_START_CONTAINER
from drahealth.suites.driver_checks.check import check
from drahealth.suites.driver_checks.device_plugins.observed import calls, plugin_pod_runs
from drahealth.suites.driver_checks.evidence import Evidence
from drahealth.suites.driver_checks.observed import outcome
from drahealth.suites.driver_checks.observed_pods import PodRun
from drahealth.suites.driver_checks.pods_checks import judged, pod_with_a_claim_starts, shows_reports
from drahealth.suites.driver_checks.verdicts import Finding, Verdict, failed, not_applicable, not_tested

_REFERENCE, _FAULTS, _KUBELET = "plugin-pod-status", "plugin-pod-faults", "plugin-kubelet-pod"
_CALLS = (ALLOCATE, GET_PREFERRED_ALLOCATION, PRE_START_CONTAINER)
_LISTED = "Keep each device in all lists, with the same ID, even while a Pod uses the device."
_BROKEN = "List a broken device as Unhealthy, with the same ID, even while a Pod uses the device."


@check(
    "DEVPLUGIN-31",
    _REFERENCE,
    fix="Return no error from Allocate. If you advertise GetPreferredAllocation or require PreStartContainer, return "
    "no error from these calls.",
)
def pod_with_devices_starts(evidence: Evidence) -> Finding:
    """The first Pod has run."""
    pods = plugin_pod_runs(evidence, _REFERENCE)
    return _starts(evidence, pods[0]) if pods else not_tested("no Pod was created")


def _starts(evidence: Evidence, pod: PodRun) -> Finding:
    """Whether the Pod has run; otherwise with the last call that failed."""
    if pod.running or not pod.delete_requested:
        return pod_with_a_claim_starts(evidence, pod)
    ended = pod.delete_requested.number
    failures = [
        (one, method)
        for method in _CALLS
        for one in calls(evidence, method, pod.experiment)
        if one.what.code != "OK" and pod.created.number < one.number < ended
    ]
    if not failures:
        return pod_with_a_claim_starts(evidence, pod)
    call, method = max(failures, key=lambda pair: pair[0].number)
    name = method.path.rpartition("/")[2]
    return failed("a running Pod", f"{name}: {outcome(call.what)}", pod.created.number, call.number)


@check("DEVPLUGIN-32", _REFERENCE, fix=_LISTED)
def devices_of_pods_are_listed_and_shown(evidence: Evidence) -> Finding:
    """All lists have the devices of the Pod, and its status shows their health."""
    pods = plugin_pod_runs(evidence, _REFERENCE)
    return _shown(evidence, pods[0]) if pods else not_tested("no Pod was created")


def _shown(evidence: Evidence, pod: PodRun) -> Finding:
    if not pod.running:
        return not_tested("the Pod did not run", pod.created.number)
    last = pod.running[-1]
    for driver, device in pod.allocated:
        for listed in evidence.of(ListReceived, pod.experiment):
            is_meant = listed.what.driver == driver and pod.created.at <= listed.at <= pod.end
            if is_meant and device.name not in {one.id for one in listed.what.devices}:
                return failed(f"a list with {device}, which a Pod uses", "a list without this device", listed.number)
        if pod.shown(last.what, driver, device) is None:
            return failed(f"{device} in the Pod status", "the Pod status does not list it", last.number)
    if not pod.allocated:
        return not_tested("no Allocate was seen", pod.created.number)
    return shows_reports(pod)


@check(
    "DEVPLUGIN-33", _REFERENCE, fix="Do not store allocated devices: kubelets do not inform a plugin when a Pod ends."
)
def pod_can_use_devices_again(evidence: Evidence) -> Finding:
    """The second Pod runs with devices of the first one."""
    pods = plugin_pod_runs(evidence, _REFERENCE)
    if not pods or not pods[0].running or len(pods) < 2:
        return not_tested("there was no second Pod")
    first, again = pods[0], pods[1]
    if again.running and not set(again.allocated) & set(first.allocated):
        return not_applicable("the second Pod has other devices", first.created.number, again.created.number)
    return _starts(evidence, again)


@check("DEVPLUGIN-34", _FAULTS, fix=_BROKEN)
def listed_fault_appears_in_the_pod_status(evidence: Evidence) -> Finding:
    """The Pod status shows each break as Unhealthy, and each heal as Healthy."""
    return judged(evidence, plugin_pod_runs(evidence, _FAULTS))


@check("DEVPLUGIN-35", _KUBELET, fix=_LISTED)
def kubelet_shows_devices_of_pods(evidence: Evidence) -> Finding:
    """The Pod runs, all lists have its devices, and its status shows their health."""
    pods = plugin_pod_runs(evidence, _KUBELET)
    if not pods:
        return not_tested("no Pod was created")
    found = _starts(evidence, pods[0])
    return _shown(evidence, pods[0]) if found.verdict is Verdict.PASS else found


@check("DEVPLUGIN-36", _KUBELET, _FAULTS, fix=_BROKEN)
def kubelet_shows_listed_fault(evidence: Evidence) -> Finding:
    """The same as on the reference, if there is a fault that needs no restart of the plugin."""
    return judged(evidence, plugin_pod_runs(evidence, _KUBELET))
