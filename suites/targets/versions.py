"""Kubernetes versions, and what a release has: the profile of its kubelet, capabilities, feature gates."""

import re
from collections.abc import Mapping
from types import MappingProxyType

from drahealth.manager import releases
from drahealth.manager.profile import Profile
from drahealth.proto.values import DRA_GATE, MESSAGE_GATE, STATUS_GATE
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.targets.capabilities import Capability

_MINOR = re.compile(r"v?((?:0|[1-9]\d*)\.(?:0|[1-9]\d*))")
_PATCH = re.compile(_MINOR.pattern + r"\.(0|[1-9]\d*)(-(?:alpha|beta|rc)\.\d+)?")

NEWEST: Mapping[str, str] = {release.minor: release.newest for release in releases.RELEASES[::-1]}
"""The newest known patch release of each minor release."""


def parse_version(text: str, newest: Mapping[str, str] = NEWEST) -> str:
    """`1.37.2` for `1.37.2` or `v1.37.2`, and the newest known patch release for `1.37`.

    `newest` maps minor releases to patch releases. Raises ConfigurationError for another text, and for an unknown minor
    release without a patch release.
    """
    version = text.strip()
    if minor := _MINOR.fullmatch(version):
        if minor[1] not in newest:
            raise _unsupported(minor[1])
        return newest[minor[1]]
    if not _PATCH.fullmatch(version):
        raise ConfigurationError(
            f"a Kubernetes version must be MAJOR.MINOR or MAJOR.MINOR.PATCH, got {text!r}",
            f"for example {releases.MINORS[-1]} or {releases.DEFAULT_VERSION}",
        )
    return version.removeprefix("v")


def names_patch(text: str) -> bool:
    """Whether a version names a patch release."""
    return not _MINOR.fullmatch(text.strip())


def _unsupported(version: str) -> ConfigurationError:
    return ConfigurationError(
        f"drahealth does not support Kubernetes {version}", f"choose a release of {', '.join(releases.MINORS[::-1])}"
    )


def profile_of(version: str) -> Profile:
    """The profile of the kubelets of this version. Raises ConfigurationError for a release without one."""
    found = releases.for_release(version)
    if found is None:
        raise _unsupported(version)
    return found


def judged_as(version: str) -> Profile:
    """The profile that judges kubelets of this version: that of the newest known release for a newer one.

    Raises ConfigurationError for an older release.
    """
    found = releases.nearest(version)
    if found is None:
        raise _unsupported(version)
    return found


def newer_than_known(*versions: str) -> str:
    """A clause for the title of a target with kubelets that are newer than all known releases; otherwise empty."""
    newest = releases.MINORS[-1]
    return f", newer than {newest}, the newest known release" if any(map(releases.is_newer, versions)) else ""


# Capabilities that a release lacks.

_GATES = {
    Capability.TAINT_DEVICES: "DRADeviceTaints",
    Capability.RESTART_RULES: "ContainerRestartRules",
    Capability.EXTENDED_RESOURCES: "DRAExtendedResource",
}
"""The feature gates of capabilities."""


def missing_in(version: str, gates: Mapping[str, bool] = MappingProxyType({})) -> Mapping[Capability, str]:
    """The capabilities that a control plane and a kubelet of this release lack.

    `gates` are the feature gates of its API server that are known; others have their defaults.
    """
    minor = ".".join(version.split(".")[:2])
    off = {
        capability: f"in Kubernetes {minor} the feature gate {gate} is off by default"
        for capability, gate in _GATES.items()
        if gate not in gates and not releases.enables(gate, minor)
    }
    off |= {
        capability: f"the feature gate {gate} of the API server is off"
        for capability, gate in _GATES.items()
        if gates.get(gate) is False
    }
    release = releases.find(version)
    if release is not None and not release.resizes_with_claims:
        off[Capability.RESIZE_WITH_CLAIMS] = (
            f"the API server of Kubernetes {minor} rejects a resize of a Pod with claims"
        )
    return {**off, **locked_in(version)}


def locked_in(version: str) -> Mapping[Capability, str]:
    """The capabilities that a kubelet of this release lacks because it locks feature gates or does not have them."""
    lacks = dict[Capability, str]()
    if releases.locks(DRA_GATE, version):
        since = next(release.minor for release in releases.RELEASES if DRA_GATE in release.locks)
        lacks[Capability.SWITCH_DRA] = f"since Kubernetes {since}, the feature gate {DRA_GATE} is locked to true"
    if not releases.has_gate(MESSAGE_GATE, version):
        since = next(release.minor for release in releases.RELEASES if MESSAGE_GATE in release.gates)
        lacks[Capability.SWITCH_MESSAGES] = f"Kubernetes before {since} does not have the feature gate {MESSAGE_GATE}"
    return lacks


# The feature gates of device health and of DRA.

_ENABLED = re.compile(r'^kubernetes_feature_enabled\{name="([^"]+)"[^}]*\} ([01])', re.MULTILINE)


def enabled(metrics: str) -> dict[str, bool]:
    """The feature gates of a component, from the metric `kubernetes_feature_enabled`."""
    return {name: value == "1" for name, value in _ENABLED.findall(metrics)}


def kubelet_gates(profile: Profile, on: bool, dra: bool = True, messages: bool = True) -> dict[str, bool]:
    """The gates of a kubelet: those of device health, and that of DRA if the release can disable it."""
    can_disable = profile.release is not None and not releases.locks(DRA_GATE, profile.release)
    return feature_gates(profile, on, messages) | ({DRA_GATE: dra} if can_disable else {})


def feature_gates(profile: Profile, on: bool = True, messages: bool = True) -> dict[str, bool]:
    """The gates of device health in a release. `on` is the gate of health, `messages` that of messages.

    Messages cannot be on without health (A-03), and the first releases have no gate of messages.
    """
    return {STATUS_GATE: on} | ({MESSAGE_GATE: on and messages} if profile.messages else {})
