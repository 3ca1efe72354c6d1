"""The Kubernetes programs of a release, with etcd and Helm: versions, sources, and the cache with a folder for each."""

import contextlib
import hashlib
import json
import os
import platform
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

import filelock

from drahealth.manager.releases import DEFAULT_VERSION
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.targets.progress import Progress, silent
from drahealth.suites.targets.run_directory import default_root, held
from drahealth.suites.targets.versions import parse_version

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


# The record of a folder of programs, and a check that is fast for unchanged files.
#
# A file with the size and modification time of its last full check is good. Of any other file the SHA-256 is
# compared. `manifest.json` is in the folder itself, so a folder can be copied or restored as it is.

_NAME = "manifest.json"


@dataclass(frozen=True, slots=True)
class Recorded:
    """One file at its last full check; `origin` is a text for people."""

    sha256: str
    size: int
    mtime_ns: int
    origin: str


def sha256_of(path: Path) -> str:
    """Hexadecimal SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def record(path: Path, origin: str) -> Recorded:
    """The record of the file as it is now."""
    stat = path.stat()
    return Recorded(sha256_of(path), stat.st_size, stat.st_mtime_ns, origin)


def read(folder: Path) -> dict[str, Recorded]:
    """The records of the folder by file name; none if the manifest is missing or damaged."""
    try:
        entries = json.loads((folder / _NAME).read_text(encoding="utf-8"))
        return {name: Recorded(**entry) for name, entry in entries.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def write(folder: Path, records: dict[str, Recorded]) -> None:
    """Replaces the manifest atomically."""
    text = json.dumps({name: asdict(entry) for name, entry in sorted(records.items())}, indent=1)
    draft = folder / f".{_NAME}.{os.getpid()}"
    draft.write_text(text + "\n", encoding="utf-8")
    draft.replace(folder / _NAME)


def good_files(folder: Path, names: Iterable[str]) -> dict[str, Recorded]:
    """The named files that match the manifest, with their records."""
    records = read(folder)
    kept = {name: entry for name in names if (entry := _checked(folder / name, records.get(name))) is not None}
    if any(entry != records[name] for name, entry in kept.items()):
        with contextlib.suppress(OSError):  # a read-only cache is checked in full every time
            write(folder, records | kept)
    return kept


def _checked(path: Path, entry: Recorded | None) -> Recorded | None:
    try:
        stat = path.stat()
        if entry is None or stat.st_size != entry.size:
            return None
        if stat.st_mtime_ns == entry.mtime_ns:
            return entry
        return again if (again := record(path, entry.origin)).sha256 == entry.sha256 else None
    except OSError:
        return None


# The cache of programs: one folder for each release and platform, complete or missing.
#
#     <root>/kubernetes/v1.37.2/linux-amd64/{kubelet,...,manifest.json}
#     <root>/etcd/v3.6.5/linux-amd64/{etcd,manifest.json}
#     <root>/helm/v4.3.1/linux-amd64/{helm,manifest.json}
#     <root>/parts/...    unfinished folders of running processes
#     <root>/lock         held by the process that changes anything
#
# A folder is made in parts/ and moved when it is complete. The lock ends with its process, so the holder of the lock
# may remove everything in parts/.

HELM = "helm"
"""The project of Helm."""


@dataclass(frozen=True, slots=True)
class Installed:
    """One release in the cache: its version, folder, bytes on disk, and the origins of its programs."""

    version: str
    folder: Path
    size: int
    origins: tuple[str, ...]


class Store:
    """The cache in one root folder; several processes may use it at the same time."""

    def __init__(self, root: Path | None = None, platform: Platform | None = None) -> None:
        self.root = default_root() if root is None else root.absolute()
        self.platform = this_platform() if platform is None else platform
        self._parts = self.root / "parts"

    def folder(self, package: Package) -> Path:
        """The folder of the package's programs."""
        return self.root / package.project / f"v{package.version}" / str(self.platform)

    def ensure(self, package: Package, source: Source, progress: Progress) -> Path:
        """The folder with all programs of the package, undamaged. Gets only missing ones from the source.

        Raises HarnessError if that fails or the cache cannot be written.
        """
        folder = self.folder(package)
        if self._missing(package):
            with self._changing(progress):
                if missing := self._missing(package):  # still missing: no other process got them
                    self._complete(Order(package, missing, self.platform, *self._workplace()), source, progress)
        return folder

    def installed(self, project: str = "kubernetes") -> list[Installed]:
        """All releases of a project for this platform, oldest version first."""
        folders = self.root.glob(f"{project}/v*/{self.platform}")
        return sorted(map(_describe, folders), key=lambda release: _order(release.version))

    def remove(self, version: str) -> int:
        """Removes a Kubernetes release from the cache, and etcd with the last one. Returns the freed bytes.

        `helm` removes every Helm. Raises ConfigurationError if it is not in the cache.
        """
        if version == HELM:
            return self._remove_helm()
        package = kubernetes(parse_version(version))
        if not self.folder(package).exists():
            there = ", ".join(release.version for release in self.installed()) or "no Kubernetes release"
            raise ConfigurationError(f"{package} is not in the cache {self.root}", f"the cache has {there}")
        with self._changing(silent):
            freed = self._discard(self.folder(package))
            return freed if self.installed() else freed + self._discard(self.folder(etcd()))

    def _remove_helm(self) -> int:
        folders = [entry.folder for entry in self.installed(HELM)]
        if not folders:
            raise ConfigurationError(f"Helm is not in the cache {self.root}", "`drahealth binaries helm` gets it")
        with self._changing(silent):
            return sum(map(self._discard, folders))

    def _missing(self, package: Package) -> list[str]:
        good = good_files(self.folder(package), package.programs)
        return [name for name in package.programs if name not in good]

    def _workplace(self) -> tuple[Path, Path]:
        files, scratch = self._parts / "files", self._parts / "scratch"
        files.mkdir(parents=True)
        scratch.mkdir()
        return files, scratch

    def _complete(self, order: Order, source: Source, progress: Progress) -> None:
        folder = self.folder(order.package)
        kept = good_files(folder, order.package.programs)
        origin = source.get(order, progress)
        for name in order.programs:
            (order.into / name).chmod(0o755)
        for name in kept:
            os.link(folder / name, order.into / name)
        new = {name: record(order.into / name, origin) for name in order.programs}
        write(order.into, kept | new)
        self._discard(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        order.into.rename(folder)

    def _discard(self, folder: Path) -> int:
        if not folder.exists():
            return 0
        self._parts.mkdir(exist_ok=True)
        old = folder.rename(self._parts / "old")
        freed = _size(old)
        shutil.rmtree(old)
        with contextlib.suppress(OSError):  # other platforms are beside it
            folder.parent.rmdir()
        return freed

    @contextlib.contextmanager
    def _changing(self, progress: Progress) -> Iterator[None]:
        def waiting(seconds: float) -> None:
            progress(f"Waiting for another process that is filling the cache ({seconds:.0f} s)")

        try:
            self.root.mkdir(parents=True, exist_ok=True)
            with held(filelock.FileLock(self.root / "lock"), waiting, again=2.0):
                try:
                    shutil.rmtree(self._parts, ignore_errors=True)
                    yield
                finally:
                    shutil.rmtree(self._parts, ignore_errors=True)
        except OSError as error:
            raise HarnessError(
                f"cannot write the cache {self.root}: {error}",
                "free some disk space, correct its permissions, or set DRAHEALTH_CACHE to another folder",
            ) from error


def _describe(folder: Path) -> Installed:
    origins = {entry.origin for entry in read(folder).values()}
    return Installed(folder.parent.name.removeprefix("v"), folder, _size(folder), tuple(sorted(origins)))


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def _order(version: str) -> tuple[tuple[int, ...], str]:
    plain, _, candidate = version.partition("-")
    return tuple(int(part) for part in plain.split(".")), candidate or "~"
