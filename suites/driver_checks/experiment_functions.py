"""The experiments by name. Each waits for what it needs of the others; all of a process can start at once."""

from collections.abc import Callable, Coroutine
from typing import Any

from drahealth.suites.driver_checks.claims import claims, slow_prepare
from drahealth.suites.driver_checks.device_plugins.experiment_functions import DEVICE_PLUGIN_RUNS
from drahealth.suites.driver_checks.ending import driver_restart, end
from drahealth.suites.driver_checks.fault_experiments import FAULT_RUNS
from drahealth.suites.driver_checks.health import slow_subscriber, subscribers, watch
from drahealth.suites.driver_checks.lab import Lab
from drahealth.suites.driver_checks.pods import kubelet_pod_faults, kubelet_pod_status, pod_faults, pod_status
from drahealth.suites.driver_checks.registration import refused_registration, registration, reregistration, services
from drahealth.suites.driver_checks.rolling_update import rolling_update
from drahealth.suites.driver_checks.slices import api_server_down, slice_deletion, slices

RUNS: dict[str, Callable[[Lab], Coroutine[Any, Any, None]]] = {
    "registration": registration,
    "services": services,
    "slices": slices,
    "watch": watch,
    "subscribers": subscribers,
    "slow-subscriber": slow_subscriber,
    "claims": claims,
    "slow-prepare": slow_prepare,
    "reregistration": reregistration,
    "end": end,
    "refused-registration": refused_registration,
    "driver-restart": driver_restart,
    "slice-deletion": slice_deletion,
    "api-server-down": api_server_down,
    "pod-status": pod_status,
    "kubelet-pod-status": kubelet_pod_status,
    "pod-faults": pod_faults,
    "kubelet-pod-faults": kubelet_pod_faults,
    "rolling-update": rolling_update,
    **DEVICE_PLUGIN_RUNS,
    **FAULT_RUNS,
}
"""The function of each experiment of `plan.EXPERIMENTS`. It raises NotApplicable and Incomplete."""
