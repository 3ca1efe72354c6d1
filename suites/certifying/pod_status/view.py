"""What a release shows of one device. A value."""

from dataclasses import dataclass

from drahealth.suites.certifying.pod_status.replay import Seen

GATED = ("1.34", "1.35")
"""Releases whose feature gate ResourceHealthStatus is off by default (facts, section 0)."""


@dataclass(frozen=True, slots=True)
class ReleaseView:
    """What a Pod status of one release shows of one device."""

    release: str
    """The Kubernetes minor, such as 1.37."""
    device: str
    """Pool and name of the device; resource and ID of a device of a device plugin."""
    resource_id: str
    """What names the device in the Pod status."""
    shown: tuple[Seen, ...]
    """What the status shows over time: an entry for each change."""
    reasons: tuple[str, ...]
    """The reasons why the status differs from the reports of the driver, one phrase each."""
