"""Capabilities: what a target can do beyond running pods that use fake devices.

Requirements and scenarios name the capabilities that they need, and never a target. A target names those that it lacks,
with the reason (`definition.TargetDefinition.missing`).
"""

from collections.abc import Iterable
from enum import Enum


class Capability(Enum):
    """The value is the name in files and reports."""

    STOP_API_SERVER = "stop-api-server"
    CONTROL_WITHOUT_API_SERVER = "control-without-api-server"
    RESTART_KUBELET = "restart-kubelet"
    STOP_KUBELET = "stop-kubelet"
    CONTROL_WITHOUT_KUBELET = "control-without-kubelet"
    SWITCH_GATES = "switch-gates"
    SWITCH_DRA = "switch-dra"
    SWITCH_MESSAGES = "switch-messages"
    ADVANCE_TIME = "advance-time"
    SET_RESYNC = "set-resync"
    LOCAL_DRIVERS = "local-drivers"
    TAINT_DEVICES = "taint-devices"
    RESTART_RULES = "restart-rules"
    EXTENDED_RESOURCES = "extended-resources"
    RESIZE = "resize"
    RESIZE_WITH_CLAIMS = "resize-with-claims"
    GRANT_RESIZE = "grant-resize"
    KEP_API = "kep-api"
    SEE_CDI_DEVICES = "see-cdi-devices"
    STATIC_PODS = "static-pods"
    USER_NAMESPACES = "user-namespaces"

    @property
    def meaning(self) -> str:
        """One line for people."""
        return _MEANINGS[self]

    @property
    def exclusive(self) -> bool:
        """Its use disturbs every pod on the node, so the scenario runs alone there."""
        return self in _EXCLUSIVE


_MEANINGS = {
    Capability.STOP_API_SERVER: "Stop the API server, and start it again with the same data.",
    Capability.CONTROL_WITHOUT_API_SERVER: "Send commands to the fake drivers while the API server is stopped.",
    Capability.RESTART_KUBELET: "Kill the kubelet, and start it again immediately, with the same files.",
    Capability.STOP_KUBELET: "Kill the kubelet, and start it later with the same files. Containers keep running.",
    Capability.CONTROL_WITHOUT_KUBELET: "Send commands to fake drivers, and change Pods, while the kubelet is stopped.",
    Capability.SWITCH_GATES: "Enable and disable feature gates of the API server and of the kubelet.",
    Capability.SWITCH_DRA: "Disable the feature gate DynamicResourceAllocation of the kubelet.",
    Capability.SWITCH_MESSAGES: "Disable the feature gate ResourceHealthStatusMessage of the kubelet.",
    Capability.ADVANCE_TIME: "Move the clock of the node forward, without waiting.",
    Capability.SET_RESYNC: "Set the time between two resyncs of a Pod.",
    Capability.LOCAL_DRIVERS: "Register any driver that runs on this machine, not only fake drivers.",
    Capability.TAINT_DEVICES: "Publish devices with taints. The scheduler does not select such devices.",
    Capability.RESTART_RULES: "Restart a container because of a rule in its spec (`restartPolicyRules`).",
    Capability.EXTENDED_RESOURCES: "Schedule Pods whose extended resources are devices of DRA drivers (KEP-5004).",
    Capability.RESIZE: "Request an in-place resize of a Pod.",
    Capability.RESIZE_WITH_CLAIMS: "Request an in-place resize of a Pod with claims.",
    Capability.GRANT_RESIZE: "Grant an in-place resize: the kubelet changes the limits of running containers.",
    Capability.KEP_API: "Run the scenarios that check fields and names of the KEP that no released API has. "
    "On released kubelets, most of these scenarios fail with a known issue.",
    Capability.SEE_CDI_DEVICES: "Read which CDI devices the container runtime received for a container.",
    Capability.USER_NAMESPACES: "Run a Pod in a user namespace of its own (`hostUsers: false`).",
    Capability.STATIC_PODS: "Give the kubelet the manifest of a static Pod.",
}

_EXCLUSIVE = frozenset(
    {
        Capability.STOP_API_SERVER,
        Capability.RESTART_KUBELET,
        Capability.STOP_KUBELET,
        Capability.SWITCH_GATES,
        Capability.SWITCH_DRA,
        Capability.SWITCH_MESSAGES,
    }
)


def named(names: Iterable[str]) -> tuple[Capability, ...]:
    """The capabilities with these names. Raises ValueError, which lists the names that exist."""
    found = []
    for name in names:
        try:
            found.append(Capability(name))
        except ValueError:
            known = ", ".join(capability.value for capability in Capability)
            raise ValueError(f"unknown capability {name!r}; choose one of {known}") from None
    return tuple(found)
