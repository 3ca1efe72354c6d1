"""The sources of programs: official releases, downloaded and verified, and packages built with Go."""

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

import requests
from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_fixed

from drahealth.manager.releases import RELEASES
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.processes.child import guarded
from drahealth.suites.targets.kubelet.binaries import Order, Package, Unavailable
from drahealth.suites.targets.progress import Progress

# The text of a go.mod and the command line of a build: pure functions over published modules.
#
# Kubernetes is published as a module whose go.mod replaces its staging modules by folders of its repository. This
# module uses their published versions instead: v0.X.Y for release v1.X.Y.

_STAGING = re.compile(r"^\s*(k8s\.io/\S+)\s+=>\s+\./staging/", re.MULTILINE)
_GO_LINE = re.compile(r"^go\s+(\d+\.\d+(?:\.\d+)?)\s*$", re.MULTILINE)
_GO_VERSION = re.compile(r"go(\d+)\.(\d+)(?:\.(\d+))?")
_SWITCHES_SINCE = (1, 21, 0)
_MODULES = {
    "kubernetes": "k8s.io/kubernetes",
    "kubectl": "k8s.io/kubernetes",
    "etcd": "go.etcd.io/etcd/server/v3",
    "helm": "helm.sh/helm/v4",
    "dra-test-driver": "k8s.io/kubernetes",
    "sample-device-plugin": "k8s.io/kubernetes",
}
_FOLDERS = {
    "dra-test-driver": "test/e2e/dra/test-driver",
    "sample-device-plugin": "test/images/sample-device-plugin",
}


@dataclass(frozen=True, slots=True)
class Module:
    """The published module of a package, the Go packages of its programs, and the answer of the proxy."""

    path: str
    version: str
    go_mod: str
    built_at: str

    @property
    def minimum_go(self) -> str:
        """The release of Go that the module needs, such as 1.26.0."""
        match = _GO_LINE.search(self.go_mod)
        return match[1] if match else "1.21"


def module_path(package: Package) -> str:
    """The module with the programs of the package."""
    return _MODULES[package.project]


def program_path(package: Package, program: str) -> str:
    """The Go package of one program."""
    module = module_path(package)
    return module if package.project == "etcd" else f"{module}/{_FOLDERS.get(package.project, f'cmd/{program}')}"


def go_mod(module: Module) -> str:
    """A go.mod that builds the module's programs from published modules only."""
    staging = "v0." + module.version.removeprefix("v").split(".", 1)[1]
    lines = ["module drahealth.local/build", f"go {module.minimum_go}", f"require {module.path} {module.version}"]
    lines += [f"replace {name} => {name} {staging}" for name in _STAGING.findall(module.go_mod)]
    return "\n".join(lines) + "\n"


def linker_flags(package: Package, module: Module) -> str:
    """Strips the programs and sets the version of Kubernetes, without which its components reject each other."""
    if package.project == "etcd":
        return "-s -w"
    if package.project == "helm":
        return f"-s -w -X {module.path}/internal/version.version=v{package.version}"
    major, minor, _ = package.version.split(".", 2)
    facts = {
        "gitVersion": f"v{package.version}",
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
        "buildDate": module.built_at,
    }
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(["-s -w", *(f"-X {where}.{name}={value}" for where in packages for name, value in facts.items())])


def toolchain(running: str, minimum: str) -> str | None:
    """The Go toolchain that builds for `minimum`, as a value of GOTOOLCHAIN; None if this Go cannot fetch it.

    `running` is what `go env GOVERSION` prints; it is `local` if it is new enough. A development version counts as new
    enough. Go fetches other toolchains as the module golang.org/toolchain, whatever the user's GOTOOLCHAIN says.
    """
    found, needed = _numbers(running), _numbers(f"go{minimum}")
    if found is None or needed is None or found >= needed:
        return "local"
    return "go" + ".".join(map(str, needed)) if found >= _SWITCHES_SINCE else None


def _numbers(version: str) -> tuple[int, int, int] | None:
    match = _GO_VERSION.match(version)
    return None if match is None else (int(match[1]), int(match[2]), int(match[3] or 0))


# Builds a package with the Go toolchain of the machine. It needs a module proxy or a filled module cache, and
# minutes.

_NO_NETWORK = ("dial tcp", "no such host", "lookup ", "i/o timeout", "connection re", "tls:", "x509:", "proxyconnect")
_INSTALL_GO = "install Go {minimum} or newer from https://go.dev/dl"
_ANY_GO = _INSTALL_GO.format(minimum=RELEASES[-1].go)


class GoFailed(Exception):
    """A go command failed; its last lines are the message."""


@dataclass(frozen=True, slots=True)
class GoBuild:
    """Builds from published Go modules with the command `go`."""

    go: str = "go"

    def get(self, order: Order, progress: Progress) -> str:
        """See `Source`. Raises Unavailable without a suitable Go or a module proxy."""
        program = shutil.which(self.go)
        if program is None:
            raise Unavailable("there is no Go toolchain to build it with", _ANY_GO)
        build = _Build(program, order, progress)
        try:
            return build.run()
        except GoFailed as failure:
            raise HarnessError(f"cannot build {order.package}: {failure}", "see the output of Go") from None


@dataclass(frozen=True, slots=True)
class _Build:
    go: str
    order: Order
    progress: Progress
    toolchain: str = ""
    """GOTOOLCHAIN of the commands, if the Go of the machine is too old."""

    def run(self) -> str:
        self._write_go_mod("module drahealth.local/build\n")
        running = self._run(f"Looking at {self.go}", "env", "GOVERSION").strip()
        module = self._find(self.order.package)
        chosen = toolchain(running, module.minimum_go)
        if chosen == "local":
            return self._compile(module, running)
        problem = f"{running} is too old to build it (it needs Go {module.minimum_go})"
        hint = _INSTALL_GO.format(minimum=module.minimum_go)
        if chosen is None:
            raise Unavailable(problem, hint)
        other = replace(self, toolchain=chosen)
        try:
            running = other._run(f"Fetching {chosen}", "env", "GOVERSION").strip()
        except GoFailed as failure:
            raise Unavailable(f"{problem}, and {chosen} cannot be fetched: {failure}", hint) from None
        return other._compile(module, running)

    def _compile(self, module: Module, running: str) -> str:
        package = self.order.package
        self._write_go_mod(go_mod(module))
        programs = [program_path(package, name) for name in self.order.programs]
        tools = [f"{path}@{module.version}" for path in programs]
        self._run(f"Resolving the modules of {package}", "get", "-tool", *tools)
        output = f"{self.order.into}/{self._only_program()}"
        flags = ["-trimpath", "-ldflags", linker_flags(package, module), "-o", output]
        self._run(f"Compiling {package} with {running}, for some minutes", "build", *flags, *programs)
        return f"built with {running} from {module.path}@{module.version}"

    def _only_program(self) -> str:
        """The file name of a single program (Go would name etcd after the folder of its module); "" for the name of
        Go."""
        return self.order.programs[0] if len(self.order.programs) == 1 else ""

    def _find(self, package: Package) -> Module:
        path, version = module_path(package), f"v{package.version}"
        stage = f"Fetching the module {path}@{version}"
        answer = json.loads(self._run(stage, "mod", "download", "-json", f"{path}@{version}", tell_by_output=True))
        if "GoMod" not in answer:
            raise _no_module(package, answer.get("Error", ""))
        info = json.loads(Path(answer["Info"]).read_text(encoding="utf-8"))
        go_mod_text = Path(answer["GoMod"]).read_text(encoding="utf-8")
        return Module(path, version, go_mod_text, info.get("Time", ""))

    def _write_go_mod(self, text: str) -> None:
        (self.order.scratch / "go.mod").write_text(text, encoding="utf-8")

    def _run(self, stage: str, *arguments: str, tell_by_output: bool = False) -> str:
        environment = {**os.environ, **self._environment()}
        return run_go([self.go, *arguments], self.order.scratch, environment, stage, self.progress, tell_by_output)

    def _environment(self) -> Mapping[str, str]:
        platform, temporary = self.order.platform, self.order.scratch / "tmp"
        temporary.mkdir(exist_ok=True)  # a killed Go leaves its files there, and the next run removes them
        fixed = {"GO111MODULE": "on", "GOWORK": "off", "GOFLAGS": "-buildvcs=false", "CGO_ENABLED": "0"}
        if self.toolchain:
            fixed["GOTOOLCHAIN"] = self.toolchain
        return {**fixed, "GOOS": platform.system, "GOARCH": platform.architecture, "GOTMPDIR": str(temporary)}


def run_go(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    stage: str,
    progress: Progress,
    tell_by_output: bool = False,
) -> str:
    """The output of the command; shows its seconds while it runs. The command ends with this process, in any way.

    With `tell_by_output` the output of a failed command is its answer.
    """
    since = time.monotonic()
    watched, held = os.pipe()
    told, sink = os.pipe()
    with subprocess.Popen(
        guarded(watched, sink, command),
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        pass_fds=(watched, sink),
    ) as process:
        os.close(watched)
        os.close(sink)
        try:
            while True:
                progress(f"{stage} ({time.monotonic() - since:.0f} s)")
                with contextlib.suppress(subprocess.TimeoutExpired):
                    output, errors = process.communicate(timeout=2)
                    break
        finally:
            os.close(held)  # which ends what still runs
            with os.fdopen(told, encoding="utf-8", errors="replace") as reports:
                report = reports.read()
    if report.startswith("failed "):
        raise GoFailed(f"{command[0]}: {report.removeprefix('failed ').strip()}")
    if process.returncode and not (tell_by_output and output):
        raise GoFailed(_last_words(errors))
    return output


def _last_words(errors: str) -> str:
    messages = [line.strip() for line in errors.splitlines() if not line.startswith(("go: downloading", "go: added"))]
    return " / ".join([line for line in messages if line][-3:]) or "it printed nothing"


def _no_module(package: Package, error: str) -> Exception:
    if any(sign in error for sign in _NO_NETWORK):
        return Unavailable("Go's module proxy cannot be reached", "run once where Go's module proxy can be reached")
    words = " ".join(error.split()) or "no reason given"
    return ConfigurationError(
        f"{package} is not a published Go module ({words})",
        "https://kubernetes.io/releases lists the releases",
    )


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
