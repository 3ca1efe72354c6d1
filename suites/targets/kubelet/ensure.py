"""The programs of a local cluster: downloaded, built, or the user's own."""

import functools
import re
import subprocess
from pathlib import Path

from drahealth.manager import releases
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.targets.kubelet import binaries
from drahealth.suites.targets.kubelet.binaries import HELM, Binaries, FirstThatCan, Installed, Source, Store
from drahealth.suites.targets.kubelet.sources import GoBuild, OfficialReleases
from drahealth.suites.targets.progress import Progress, silent
from drahealth.suites.targets.versions import parse_version

# The programs of a local cluster: downloaded, or built with Go without a network, and kept in a cache.


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
    kubernetes = store.ensure(binaries.kubernetes(number), source, progress)
    etcd = store.ensure(binaries.etcd(), source, progress)
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
    return store.ensure(binaries.kubectl(parse_version(version)), source, progress) / "kubectl"


def ensure_helm(progress: Progress = silent, *, store: Store | None = None, source: Source | None = None) -> Path:
    """The command of Helm, got as `ensure` gets its programs. Raises HarnessError."""
    store = Store() if store is None else store
    source = FirstThatCan((OfficialReleases(), GoBuild())) if source is None else source
    return store.ensure(binaries.helm(), source, progress) / "helm"


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


# A kubelet that the user built: which file it is, and its release.

_VERSION = re.compile(r"Kubernetes v(\d+\.\d+\.\d+)\S*")
_HELP = "The kubelet is "
_NO_RELEASE = "0.0.0"
"""The release of a kubelet that was built with `go build`, without the linker flags of Kubernetes."""
_SECONDS = 60.0


def check_release(kubelet: Path, kubernetes: str) -> str:
    """The release of a kubelet, such as 1.36.5; `kubernetes` for one without a release: a plain `go build` sets none.

    Raises ConfigurationError if the file is not a kubelet, or belongs to a release that is too old, or to another minor
    release than `kubernetes`.
    """
    version = own_release(kubelet)
    if version == _NO_RELEASE:
        return kubernetes
    if releases.nearest(version) is None:
        supported = ", ".join(releases.MINORS[::-1])
        raise ConfigurationError(
            f"drahealth does not support Kubernetes {version.rpartition('.')[0]}, the release of {kubelet}",
            f"choose a kubelet of {supported}, or of a newer release",
        )
    minor, wanted = (".".join(release.split(".")[:2]) for release in (version, kubernetes))
    if minor != wanted:
        raise ConfigurationError(
            f"--kubelet must be a kubelet of Kubernetes {wanted}, but {kubelet} is of {minor}",
            f"select the release of the kubelet, such as --kubernetes {minor}.0; or build the kubelet with "
            "`go build ./cmd/kubelet`, which sets no release",
        )
    return version


def release_or(kubelet: Path, other: str) -> str:
    """The release of a kubelet; `other` for one without a release. Raises ConfigurationError if it is not a kubelet."""
    version = own_release(kubelet)
    return other if version == _NO_RELEASE else version


_SKEW = 3
"""Minor releases by which a kubelet can be older than its control plane."""


def check_skew(kubelet: str, control_plane: str) -> None:
    """Raises ConfigurationError for releases that Kubernetes does not support together."""
    (major, minor), (plane_major, plane_minor) = (releases.patch_level(one)[:2] for one in (kubelet, control_plane))
    hint = f"a kubelet can be up to {_SKEW} minor releases older than its control plane, and not newer"
    if (plane_major, plane_minor) < (major, minor):
        raise ConfigurationError(f"--control-plane {control_plane} is older than the kubelet, {kubelet}", hint)
    if plane_major != major or plane_minor - minor > _SKEW:
        raise ConfigurationError(
            f"--control-plane {control_plane} is more than {_SKEW} minor releases newer than the kubelet, {kubelet}",
            hint,
        )


@functools.cache
def own_release(kubelet: Path) -> str:
    """The release of a kubelet, such as 1.37.2; 0.0.0 without one. Raises ConfigurationError if it is not a kubelet."""
    # All programs of Kubernetes print the same version, but each has its own help.
    match = _VERSION.match(_output(kubelet, "--version"))
    if match is None or not _output(kubelet, "--help").startswith(_HELP):
        raise ConfigurationError(
            f"--kubelet must be a kubelet, got {kubelet}", "build it with `make WHAT=cmd/kubelet` in Kubernetes"
        )
    return match[1]


def _output(program: Path, option: str) -> str:
    """What the program prints to its standard output; empty if it does not start, or does not end."""
    try:
        done = subprocess.run(
            [program, option],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout
