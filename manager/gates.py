"""The feature gates of a kubelet that change the health of devices."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gates:
    """The feature gates. They are read once, at start."""

    resource_health_status: bool = True
    resource_health_status_message: bool = True
    dynamic_resource_allocation: bool = True
    """Without it, no DRA plugin can register, and Pods run without the devices of their claims. Kubernetes 1.35 and
    later releases lock this gate to True."""
