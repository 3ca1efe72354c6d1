"""The programs of a local cluster: downloaded, or built with Go without a network, and kept in a cache."""

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
    """The programs of a Kubernetes release, checked against their recorded checksums. Gets missing ones.

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


def ensure_kubectl(
    version: str, progress: Progress = silent, *, store: Store | None = None, source: Source | None = None
) -> Path:
    """The kubectl of a Kubernetes release, got as `ensure` gets its programs. Raises HarnessError."""
    store = Store() if store is None else store
    source = FirstThatCan((OfficialReleases(), GoBuild())) if source is None else source
    return store.ensure(releases.kubectl(parse_version(version)), source, progress) / "kubectl"


def ensure_helm(progress: Progress = silent, *, store: Store | None = None, source: Source | None = None) -> Path:
    """The command of Helm, got as `ensure` gets its programs. Raises HarnessError."""
    store = Store() if store is None else store
    source = FirstThatCan((OfficialReleases(), GoBuild())) if source is None else source
    return store.ensure(releases.helm(), source, progress) / "helm"


def installed() -> list[Installed]:
    """The Kubernetes releases in the user's cache, oldest version first."""
    return Store().installed()


def installed_helm() -> list[Installed]:
    """The releases of Helm in the cache."""
    return Store().installed(HELM)


def remove(version: str) -> int:
    """Removes a release, or `helm`, from the cache. Returns the freed bytes. Raises ConfigurationError if it is not
    there."""
    return Store().remove(version)
