"""Downloads the official releases: resumed after a cut, with their SHA-256."""

import hashlib
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

import requests
from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_fixed

from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.targets.kubelet.binaries.releases import Order, Unavailable
from drahealth.suites.targets.progress import Progress

# Whether a server can be reached, in a few seconds.
#
# A connect timeout does not cover the resolver, which can hang for half a minute if a network drops its packets. So a
# small process makes the attempt, and can be killed.

_ATTEMPT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 3).close()"
_PORTS = {"http": 80, "https": 443}


def reachable(url: str, limit: float = 4.0) -> bool:
    """Whether the server of the URL, or its proxy, accepts connections; waits at most `limit` seconds."""
    host, port = _first_hop(url)
    try:
        attempt = [sys.executable, "-I", "-c", _ATTEMPT, host, str(port)]
        return subprocess.run(attempt, timeout=limit, capture_output=True, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def _first_hop(url: str) -> tuple[str, int]:
    import requests.utils

    proxy = requests.utils.select_proxy(url, requests.utils.get_environ_proxies(url))
    if proxy is not None and "//" not in proxy:
        proxy = f"http://{proxy}"
    parts = urlsplit(proxy or url)
    return parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 1080)


# One file over HTTP: streamed to disk, resumed after a cut, with its SHA-256.

_CHUNK = 1 << 16
_TIMEOUT = (3.0, 9.0)
"""Seconds to connect, and seconds without data after which a connection counts as cut."""


class NotThere(Exception):
    """The server does not have the file."""


def read_text(url: str) -> str:
    """The text of a small file. Raises NotThere or Unavailable."""
    try:
        with requests.get(url, timeout=_TIMEOUT) as answer:
            _judge(answer)
            return answer.text
    except requests.RequestException as error:
        raise _unavailable(url, error) from error


class Transfer:
    """Fetches `url` into `target`; fails after `attempts` connections in a row without new data."""

    def __init__(self, url: str, target: Path, *, attempts: int = 3, pause: float = 1.0) -> None:
        self.url = url
        self.target = target
        self.attempts = attempts
        self.pause = pause
        self._digest = hashlib.sha256()
        self._done = 0

    def run(self, sha256: str, stage: str, progress: Progress) -> None:
        """Raises NotThere, Unavailable if the connection fails, HarnessError for a wrong checksum."""
        self._fetch(stage, progress)
        if self._digest.hexdigest() != sha256:
            raise HarnessError(
                f"{self.url} does not match its published checksum "
                f"(expected {sha256[:12]}..., received {self._digest.hexdigest()[:12]}...)",
                "try again; if it repeats, a proxy may change the file",
            )

    def _fetch(self, stage: str, progress: Progress) -> None:
        failures, before = 0, 0

        def is_last(_: RetryCallState) -> bool:
            nonlocal failures, before
            failures, before = (1 if self._done > before else failures + 1), self._done
            return failures >= self.attempts

        retrying = Retrying(
            retry=retry_if_exception_type(requests.RequestException),
            wait=wait_fixed(self.pause),
            stop=is_last,
            before_sleep=lambda _: progress(f"{stage}: the connection was cut, retrying", self._done),
            reraise=True,
        )
        try:
            with self.target.open("wb") as file:
                retrying(self._stream, file, stage, progress)
        except requests.RequestException as error:
            raise _unavailable(self.url, error) from error

    def _stream(self, file: BinaryIO, stage: str, progress: Progress) -> None:
        headers = {"Accept-Encoding": "identity", "Range": f"bytes={self._done}-"}
        with requests.get(self.url, headers=headers, stream=True, timeout=_TIMEOUT) as answer:
            _judge(answer)
            if answer.status_code != requests.codes.partial_content:
                self._start_over(file)
            length = answer.headers.get("Content-Length")
            total = self._done + int(length) if length else None
            for chunk in answer.iter_content(_CHUNK):
                file.write(chunk)
                self._digest.update(chunk)
                self._done += len(chunk)
                progress(stage, self._done, total)

    def _start_over(self, file: BinaryIO) -> None:
        file.seek(0)
        file.truncate()
        self._digest = hashlib.sha256()
        self._done = 0


def _judge(answer: requests.Response) -> None:
    if answer.status_code in (404, 410):
        raise NotThere(answer.url)
    if answer.status_code in (401, 403, 407, 416):
        raise Unavailable(f"{_host(answer.url)} refuses with status {answer.status_code}")
    answer.raise_for_status()


def _unavailable(url: str, error: requests.RequestException) -> Unavailable:
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return Unavailable(f"{_host(url)} answers with status {error.response.status_code}")
    return Unavailable(f"the connection to {_host(url)} was lost ({_cause(error)})")


def _cause(error: BaseException) -> str:
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return str(error) or type(error).__name__


def _host(url: str) -> str:
    return url.split("/")[2]


# The official releases: https://dl.k8s.io for Kubernetes, the project's GitHub releases for etcd, and get.helm.sh.
#
# Each file is compared with its published checksum.

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

    platform = order.platform
    folder = f"{base}/v{order.package.version}/bin/{platform.system}/{platform.architecture}"
    for name in order.programs:
        sha256 = read_text(f"{folder}/{name}.sha256").split()[0]
        Transfer(f"{folder}/{name}", order.into / name).run(sha256, f"Downloading {name} of {order.package}", progress)
    return f"downloaded from {folder}"


def _etcd(base: str, order: Order, progress: Progress) -> str:

    folder = f"{base}/v{order.package.version}"
    name = f"etcd-v{order.package.version}-{order.platform}"
    archive = f"{name}.tar.gz"
    sha256 = _listed(read_text(f"{folder}/SHA256SUMS"), archive, f"{folder}/SHA256SUMS")
    Transfer(f"{folder}/{archive}", order.scratch / archive).run(sha256, f"Downloading {order.package}", progress)
    for program in order.programs:
        _extract(order.scratch / archive, f"{name}/{program}", order.into / program)
    return f"downloaded from {folder}"


def _helm(base: str, order: Order, progress: Progress) -> str:

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
