"""The experiments on device plugins by name."""

from collections.abc import Callable, Coroutine
from typing import Any

from drahealth.suites.driver_checks.device_plugins.devices import (
    allocation,
    container_start,
    list_and_watch,
    plugin_faults,
    preferred_allocation,
)
from drahealth.suites.driver_checks.device_plugins.pods import plugin_kubelet_pod, plugin_pod_faults, plugin_pod_status
from drahealth.suites.driver_checks.device_plugins.registration import (
    kubelet_restart,
    plugin_registration,
    refused_plugin,
    removed_socket,
)
from drahealth.suites.driver_checks.ending import end
from drahealth.suites.driver_checks.lab import Lab

DEVICE_PLUGIN_RUNS: dict[str, Callable[[Lab], Coroutine[Any, Any, None]]] = {
    "plugin-registration": plugin_registration,
    "list-and-watch": list_and_watch,
    "allocation": allocation,
    "preferred-allocation": preferred_allocation,
    "container-start": container_start,
    "plugin-kubelet-restart": kubelet_restart,
    "plugin-end": end,
    "refused-plugin": refused_plugin,
    "removed-socket": removed_socket,
    "plugin-faults": plugin_faults,
    "plugin-pod-status": plugin_pod_status,
    "plugin-pod-faults": plugin_pod_faults,
    "plugin-kubelet-pod": plugin_kubelet_pod,
}
