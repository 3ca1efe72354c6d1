"""Releases of Kubernetes, etcd and Helm: versions, platforms, programs, and their sources."""

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from drahealth.manager.releases import DEFAULT_VERSION
from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.progress import Progress

# Releases of Kubernetes, etcd and Helm: their versions, platforms and programs.

ETCD_VERSION = "3.6.5"
"""The etcd for all supported releases of Kubernetes."""
HELM_VERSION = "4.3.1"
"""The Helm for the checks of the chart."""

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64", "ppc64le": "ppc64le", "s390x": "s390x"}


@dataclass(frozen=True, slots=True)
class Platform:
    """An operating system and an architecture, as Go and the release servers name them."""

    system: str
    architecture: str

    def __str__(self) -> str:
        return f"{self.system}-{self.architecture}"


@dataclass(frozen=True, slots=True)
class Package:
    """One release of one project, and the wanted programs; `version` is without the leading v."""

    project: str
    title: str
    version: str
    programs: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.title} v{self.version}"


@dataclass(frozen=True, slots=True)
class Binaries:
    """The programs of one local cluster; replace one path to test another build."""

    version: str
    kubelet: Path
    kube_apiserver: Path
    kube_scheduler: Path
    kube_controller_manager: Path
    etcd: Path


def kubernetes(version: str) -> Package:
    """The programs of a node and of a control plane; `version` as `parse_version` gives it."""
    programs = ("kubelet", "kube-apiserver", "kube-scheduler", "kube-controller-manager")
    return Package("kubernetes", "Kubernetes", version, programs)


def kubectl(version: str) -> Package:
    """The command line of Kubernetes; `version` as `parse_version` gives it."""
    return Package("kubectl", "kubectl", version, ("kubectl",))


def etcd(version: str = ETCD_VERSION) -> Package:
    """The store of the API server."""
    return Package("etcd", "etcd", version, ("etcd",))


def helm(version: str = HELM_VERSION) -> Package:
    """The package manager of charts."""
    return Package("helm", "Helm", version, ("helm",))


def dra_test_driver(version: str = DEFAULT_VERSION) -> Package:
    """The DRA driver of Kubernetes' own tests, which is not released: it can only be built."""
    return Package("dra-test-driver", "the DRA test driver of Kubernetes", version, ("dra-test-driver",))


def sample_device_plugin(version: str = DEFAULT_VERSION) -> Package:
    """The sample device plugin of Kubernetes' own tests, which is not released: it can only be built."""
    title = "the sample device plugin of Kubernetes"
    return Package("sample-device-plugin", title, version, ("sample-device-plugin",))


def this_platform() -> Platform:
    """The platform of this machine. Raises HarnessError if no kubelet can run on it."""
    system, machine = platform.system().lower(), platform.machine()
    if system != "linux":
        raise HarnessError(f"a kubelet needs Linux, got {platform.system()}", "use a Linux machine or VM")
    if machine not in _ARCHITECTURES:
        raise HarnessError(
            f"there is no Kubernetes release for the architecture {machine}", "use an amd64 or arm64 one"
        )
    return Platform(system, _ARCHITECTURES[machine])


# The sources of the programs of a package, tried in order.


class Unavailable(Exception):
    """This source is unavailable: `reason` is a clause ("there is no Go toolchain"), `hint` says what to do."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason, hint)
        self.reason = reason
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Order:
    """The wanted programs of a package, each as the file `into`/NAME; `scratch` is an empty folder to work in."""

    package: Package
    programs: Sequence[str]
    platform: Platform
    into: Path
    scratch: Path


class Source(Protocol):
    """One way to get programs."""

    def get(self, order: Order, progress: Progress) -> str:
        """Writes the files. Returns their origin, for people.

        Raises `Unavailable` if another source may work, HarnessError if none can.
        """


@dataclass(frozen=True, slots=True)
class FirstThatCan:
    """Tries each source in turn. Raises one HarnessError with all reasons."""

    sources: Sequence[Source]

    def get(self, order: Order, progress: Progress) -> str:
        lacking: list[Unavailable] = []
        for source in self.sources:
            try:
                return source.get(order, progress)
            except Unavailable as lack:
                lacking.append(lack)
        reasons = ", and ".join(lack.reason for lack in lacking)
        hints = ", or ".join(lack.hint for lack in lacking if lack.hint)
        raise HarnessError(f"cannot get {order.package}: {reasons}", hints)
