"""The feature gates of device health and of DRA, by release."""

from drahealth.fakes.cluster.api_server.pod_statuses import MESSAGE_GATE, STATUS_GATE
from drahealth.manager.profile import Profile

DRA_GATE = "DynamicResourceAllocation"
_WITH_DRA_GATE = ("1.34",)
"""Releases whose kubelets can disable DRA. Later ones lock the gate."""


def kubelet_gates(profile: Profile, on: bool, dra: bool = True, messages: bool = True) -> dict[str, bool]:
    """The gates of a kubelet: those of device health, and that of DRA if the release can disable it."""
    return feature_gates(profile, on, messages) | ({DRA_GATE: dra} if profile.release in _WITH_DRA_GATE else {})


def feature_gates(profile: Profile, on: bool = True, messages: bool = True) -> dict[str, bool]:
    """The gates of device health in a release. `on` is the gate of health, `messages` that of messages.

    Messages cannot be on without health (A-03). Releases before 1.36 have no gate of messages.
    """
    return {STATUS_GATE: on} | ({MESSAGE_GATE: on and messages} if profile.messages else {})
