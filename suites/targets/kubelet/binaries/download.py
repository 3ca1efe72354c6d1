"""The official releases: https://dl.k8s.io for Kubernetes, the project's GitHub releases for etcd, and get.helm.sh.

Each file is compared with its published checksum.
"""

import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path

from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.targets.kubelet.binaries.reach import reachable
from drahealth.suites.targets.kubelet.binaries.sources import Order, Unavailable
from drahealth.suites.targets.progress import Progress

KUBERNETES_URL = "https://dl.k8s.io/release"
ETCD_URL = "https://github.com/etcd-io/etcd/releases/download"
HELM_URL = "https://get.helm.sh"

_RELEASES = {
    "kubernetes": "https://kubernetes.io/releases",
    "kubectl": "https://kubernetes.io/releases",
    "etcd": "https://github.com/etcd-io/etcd/releases",
    "helm": "https://github.com/helm/helm/releases",
}


@dataclass(frozen=True, slots=True)
class OfficialReleases:
    """Downloads releases; the base URLs may be those of mirrors with the same layout."""

    kubernetes_url: str = KUBERNETES_URL
    etcd_url: str = ETCD_URL
    helm_url: str = HELM_URL

    def get(self, order: Order, progress: Progress) -> str:
        """See `Source`. Raises Unavailable without a network, ConfigurationError for a release that does not exist."""
        from drahealth.suites.targets.kubelet.binaries.transfer import NotThere

        base, fetch = {
            "kubernetes": (self.kubernetes_url, _kubernetes),
            "kubectl": (self.kubernetes_url, _kubernetes),
            "etcd": (self.etcd_url, _etcd),
            "helm": (self.helm_url, _helm),
        }[order.package.project]
        host = base.split("/")[2]
        progress(f"Connecting to {host}")
        if not reachable(base):
            raise Unavailable(f"{host} cannot be reached", f"run once where {host} can be reached")
        try:
            return fetch(base, order, progress)
        except NotThere as missing:
            platform = f"{order.platform.system}/{order.platform.architecture}"
            raise ConfigurationError(
                f"{order.package} was not released for {platform} ({missing} does not exist)",
                f"{_RELEASES[order.package.project]} lists the releases",
            ) from missing


def _kubernetes(base: str, order: Order, progress: Progress) -> str:
    from drahealth.suites.targets.kubelet.binaries.transfer import Transfer, read_text

    platform = order.platform
    folder = f"{base}/v{order.package.version}/bin/{platform.system}/{platform.architecture}"
    for name in order.programs:
        sha256 = read_text(f"{folder}/{name}.sha256").split()[0]
        Transfer(f"{folder}/{name}", order.into / name).run(sha256, f"Downloading {name} of {order.package}", progress)
    return f"downloaded from {folder}"


def _etcd(base: str, order: Order, progress: Progress) -> str:
    from drahealth.suites.targets.kubelet.binaries.transfer import Transfer, read_text

    folder = f"{base}/v{order.package.version}"
    name = f"etcd-v{order.package.version}-{order.platform}"
    archive = f"{name}.tar.gz"
    sha256 = _listed(read_text(f"{folder}/SHA256SUMS"), archive, f"{folder}/SHA256SUMS")
    Transfer(f"{folder}/{archive}", order.scratch / archive).run(sha256, f"Downloading {order.package}", progress)
    for program in order.programs:
        _extract(order.scratch / archive, f"{name}/{program}", order.into / program)
    return f"downloaded from {folder}"


def _helm(base: str, order: Order, progress: Progress) -> str:
    from drahealth.suites.targets.kubelet.binaries.transfer import Transfer, read_text

    archive = f"helm-v{order.package.version}-{order.platform}.tar.gz"
    sha256 = _listed(read_text(f"{base}/{archive}.sha256sum"), archive, f"{base}/{archive}.sha256sum")
    Transfer(f"{base}/{archive}", order.scratch / archive).run(sha256, f"Downloading {order.package}", progress)
    for program in order.programs:
        _extract(order.scratch / archive, f"{order.platform}/{program}", order.into / program)
    return f"downloaded from {base}"


def _listed(sums: str, name: str, url: str) -> str:
    for line in sums.splitlines():
        if line.split()[1:] == [name]:
            return line.split()[0]
    raise HarnessError(f"{url} does not list {name}", "check that the URL is that of the releases or a mirror")


def _extract(archive: Path, member: str, target: Path) -> None:
    try:
        with tarfile.open(archive) as tar, target.open("wb") as file:
            content = tar.extractfile(member)
            if content is None:
                raise HarnessError(f"{member} in {archive.name} is not a regular file")
            shutil.copyfileobj(content, file)
    except (KeyError, tarfile.TarError) as error:
        raise HarnessError(f"{archive.name} does not contain {member}", "try again later") from error
