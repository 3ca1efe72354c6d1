"""The programs of a local cluster, got once and kept: downloaded where there is a network, built with Go elsewhere."""

from pathlib import Path

from drahealth.suites.targets.kubelet.binaries import releases
from drahealth.suites.targets.kubelet.binaries.build import GoBuild
from drahealth.suites.targets.kubelet.binaries.download import OfficialReleases
from drahealth.suites.targets.kubelet.binaries.releases import Binaries
from drahealth.suites.targets.kubelet.binaries.sources import FirstThatCan, Source
from drahealth.suites.targets.kubelet.binaries.store import HELM, Installed, Store
from drahealth.suites.targets.progress import Progress, silent
from drahealth.suites.targets.versions import parse_version


def ensure(
    version: str, progress: Progress = silent, *, store: Store | None = None, source: Source | None = None
) -> Binaries:
    """The programs of a Kubernetes release, checked against their recorded checksums; gets what is missing.

    Raises ConfigurationError for a version that is malformed or does not exist, HarnessError if this machine can
    neither download nor build it.
    """
    number = parse_version(version)
    store = Store() if store is None else store
    source = FirstThatCan((OfficialReleases(), GoBuild())) if source is None else source
    kubernetes = store.ensure(releases.kubernetes(number), source, progress)
    etcd = store.ensure(releases.etcd(), source, progress)
    return Binaries(
        number,
        kubernetes / "kubelet",
        kubernetes / "kube-apiserver",
        kubernetes / "kube-scheduler",
        kubernetes / "kube-controller-manager",
        etcd / "etcd",
    )


def ensure_helm(progress: Progress = silent, *, store: Store | None = None, source: Source | None = None) -> Path:
    """The command of Helm, got as `ensure` gets its programs. HarnessError if it cannot be had here."""
    store = Store() if store is None else store
    source = FirstThatCan((OfficialReleases(), GoBuild())) if source is None else source
    return store.ensure(releases.helm(), source, progress) / "helm"


def installed() -> list[Installed]:
    """The Kubernetes releases in the user's cache, oldest version first."""
    return Store().installed()


def installed_helm() -> list[Installed]:
    """The releases of Helm there."""
    return Store().installed(HELM)


def remove(version: str) -> int:
    """Takes a release, or `helm`, out of the cache and gives the bytes freed; ConfigurationError if it is not there."""
    return Store().remove(version)
