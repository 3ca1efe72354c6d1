"""The kubelet's feature gates for the health of devices."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gates:
    """The feature gates of device health. Both are read once, at start."""

    resource_health_status: bool = True
    resource_health_status_message: bool = True
