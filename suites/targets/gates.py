"""The feature gates of device health and of DRA, by release."""

from drahealth.fakes.cluster.api_server.gates import MESSAGE_GATE, STATUS_GATE
from drahealth.manager.profile import Profile

DRA_GATE = "DynamicResourceAllocation"
_WITH_DRA_GATE = ("1.34",)
"""Releases whose kubelets can disable DRA. Later ones lock the gate."""


def kubelet_gates(profile: Profile, on: bool, dra: bool) -> dict[str, bool]:
    """The gates of a kubelet: those of device health, and that of DRA if the release can disable it."""
    return feature_gates(profile, on) | ({DRA_GATE: dra} if profile.release in _WITH_DRA_GATE else {})


def feature_gates(profile: Profile, on: bool = True) -> dict[str, bool]:
    """The gates of a release, all on or all off. One cannot be off alone (A-03), and releases before 1.36 have only
    one."""
    return {STATUS_GATE: on} | ({MESSAGE_GATE: on} if profile.messages else {})
