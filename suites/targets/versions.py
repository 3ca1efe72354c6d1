"""Kubernetes versions, and the profiles of their kubelets."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from drahealth.suites.errors import ConfigurationError
from drahealth.suites.targets.capabilities import Capability

if TYPE_CHECKING:
    from drahealth.manager.profile import Profile

NEWEST: Mapping[str, str] = {"1.37": "1.37.1", "1.36": "1.36.3", "1.35": "1.35.4", "1.34": "1.34.4"}
"""The newest known patch release of each minor release, on which the scenarios run in CI."""

_MINOR = re.compile(r"v?((?:0|[1-9]\d*)\.(?:0|[1-9]\d*))")
_PATCH = re.compile(_MINOR.pattern + r"\.(0|[1-9]\d*)(-(?:alpha|beta|rc)\.\d+)?")


def parse_version(text: str, newest: Mapping[str, str] = NEWEST) -> str:
    """`1.37.1` for `1.37.1` or `v1.37.1`, and the newest known patch release for `1.37`.

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
            f"a Kubernetes version must be MAJOR.MINOR or MAJOR.MINOR.PATCH, got {text!r}", "for example 1.37 or 1.37.1"
        )
    return version.removeprefix("v")


def names_patch(text: str) -> bool:
    """Whether a version names a patch release."""
    return not _MINOR.fullmatch(text.strip())


def _unsupported(version: str) -> ConfigurationError:
    return ConfigurationError(
        f"drahealth does not support Kubernetes {version}", f"choose a release of {', '.join(NEWEST)}"
    )


def profile_of(version: str) -> "Profile":
    """The profile of the kubelets of this release. Raises ConfigurationError for a release without one."""
    from drahealth.manager.profile import for_release  # only here: options are listed without it

    found = for_release(version)
    if found is None:
        raise _unsupported(version)
    return found


_ON_SINCE = {
    Capability.TAINT_DEVICES: ("DRADeviceTaints", 36),
    Capability.RESTART_RULES: ("ContainerRestartRules", 35),
    Capability.EXTENDED_RESOURCES: ("DRAExtendedResource", 36),
}
"""The feature gates of capabilities, and the minor releases since which they are on by default."""


def missing_in(version: str) -> Mapping[Capability, str]:
    """The capabilities that a control plane and a kubelet of this release lack with their default feature gates."""
    minor = int(version.split(".")[1])
    off = {
        capability: f"in Kubernetes 1.{minor} the feature gate {gate} is off by default"
        for capability, (gate, since) in _ON_SINCE.items()
        if minor < since
    }
    if minor < 37:
        off[Capability.RESIZE_WITH_CLAIMS] = (
            f"the API server of Kubernetes 1.{minor} rejects a resize of a Pod with claims"
        )
    return {**off, **locked_in(version)}


def locked_in(release: str) -> Mapping[Capability, str]:
    """The capabilities that a kubelet of this release lacks because it locks feature gates or does not have them."""
    locked = {
        Capability.SWITCH_DRA: "since Kubernetes 1.35, the feature gate DynamicResourceAllocation is locked to true"
    }
    absent = {
        Capability.SWITCH_MESSAGES: "Kubernetes before 1.36 does not have the feature gate ResourceHealthStatusMessage"
    }
    minor = int(release.split(".")[1])
    return {**(locked if minor >= 35 else {}), **(absent if minor < 36 else {})}
