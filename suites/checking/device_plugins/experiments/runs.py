"""The experiments on device plugins by name."""

from collections.abc import Callable, Coroutine
from typing import Any

from drahealth.suites.checking.device_plugins.experiments.allocating import (
    allocation,
    container_start,
    preferred_allocation,
)
from drahealth.suites.checking.device_plugins.experiments.breaking import plugin_faults
from drahealth.suites.checking.device_plugins.experiments.listing import list_and_watch
from drahealth.suites.checking.device_plugins.experiments.pods import (
    plugin_kubelet_pod,
    plugin_pod_faults,
    plugin_pod_status,
)
from drahealth.suites.checking.device_plugins.experiments.registering import (
    kubelet_restart,
    plugin_registration,
    refused_plugin,
    removed_socket,
)
from drahealth.suites.checking.experiments.ending import end
from drahealth.suites.checking.lab import Lab

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
