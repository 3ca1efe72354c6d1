"""The directories of a driver process, and the placeholders of a command line."""

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from drahealth.fakes.cluster.access import port_in
from drahealth.fakes.cluster.api_server.http import LOOPBACK
from drahealth.fakes.hints import near
from drahealth.suites.driver_checks.subject.sandbox import CDI_DIR, CDI_DIRS, KUBELET_DIR, SERVICE_ACCOUNT_DIR, Sandbox
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.processes.mounts import MountPlan
from drahealth.suites.processes.sandbox import RunningSandbox, sandbox

# Socket files below a directory.


def socket_files(directory: Path) -> Iterator[Path]:
    """All sockets below a directory, except hidden ones; none if it does not exist."""
    for folder, _, files in os.walk(directory):
        for name in files:
            path = Path(folder, name)
            with suppress(OSError):  # it was removed meanwhile
                if not name.startswith(".") and stat.S_ISSOCK(path.lstat().st_mode):
                    yield path


# The directories of a driver process, and the placeholders of a command line that stand for them.

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True, slots=True)
class Places:
    """The directories and names that a driver process is started with."""

    kubelet_dir: Path
    """The kubelet's root directory, as /var/lib/kubelet."""
    registry_dir: Path
    """Directory of registration sockets, as /var/lib/kubelet/plugins_registry."""
    plugins_dir: Path
    """Directory for the drivers' own sockets and state, as /var/lib/kubelet/plugins."""
    cdi_dir: Path
    """Directory of CDI specs, as /var/run/cdi."""
    kubeconfig: Path | None
    """Access to the API server; None without one."""
    node_name: str
    driver_name: str = ""
    """The driver's name if the user gave it: its plugin directory then exists before the driver starts."""
    socket: Path | None = None
    """The only registration socket to use; None for any in the directory."""
    more_cdi_dirs: tuple[Path, ...] = ()
    """Further directories of CDI specs of a running driver."""
    seen: tuple[tuple[Path, Path], ...] = ()
    """For a driver in a sandbox: its directories as it sees them, and where each of them is outside."""

    service_account: Path | None = None
    """The folder of the service account that the driver sees as in a Pod; None if it runs as a program."""
    instance: int = 1
    """Number of the driver's instance; the second one replaces the first one in a rolling update."""

    @property
    def pod_uid(self) -> str:
        """The UID of the Pod in which the instance could run: it has no Pod. A restart does not change it."""
        return str(uuid5(NAMESPACE_URL, f"{self.node_name}/{self.instance}"))

    @property
    def cdi_dirs(self) -> tuple[Path, ...]:
        """All directories of CDI specs."""
        return (self.cdi_dir, *self.more_cdi_dirs)

    @property
    def device_plugins_dir(self) -> Path:
        """Directory of the kubelet's socket and the sockets of device plugins, as /var/lib/kubelet/device-plugins."""
        return self.kubelet_dir / "device-plugins"

    @property
    def driver_dir(self) -> Path:
        """The driver's own plugin directory."""
        return self.plugins_dir / (self.driver_name or "driver")

    def inside(self, path: Path) -> Path:
        """A path of ours as the driver sees it."""
        return _moved(path, [(outside, inside) for inside, outside in self.seen])

    def outside(self, path: Path) -> Path:
        """A path that the driver names, as we see it."""
        return _moved(path, self.seen)

    def placeholders(self, *, outside: bool = False) -> dict[str, str]:
        """The value of each placeholder by its name: paths as the driver sees them, or as they are outside."""
        paths = {
            "kubelet_dir": self.kubelet_dir,
            "registry_dir": self.registry_dir,
            "plugins_dir": self.plugins_dir,
            "device_plugins_dir": self.device_plugins_dir,
            "driver_dir": self.driver_dir,
            "cdi_dir": self.cdi_dir,
        }
        return {name: str(path if outside else self.inside(path)) for name, path in paths.items()} | {
            "kubeconfig": str(self.kubeconfig or ""),
            "node_name": self.node_name,
            "driver_name": self.driver_name,
            "pod_uid": self.pod_uid,
            "instance": str(self.instance),
        }

    def environment(self) -> dict[str, str]:
        """Variables that many drivers read. A driver that starts as in a Pod has only those of a Pod.

        KUBECONFIG is always set, so that a driver never uses the kubeconfig of the user.
        """
        if self.service_account:
            port = str(port_in(self.kubeconfig)) if self.kubeconfig else ""
            return {"KUBECONFIG": "", "KUBERNETES_SERVICE_HOST": LOOPBACK, "KUBERNETES_SERVICE_PORT": port}
        found = {"NODE_NAME": self.node_name, "CDI_ROOT": str(self.inside(self.cdi_dir))}
        return found | {"KUBECONFIG": str(self.kubeconfig or "")}

    def make(self) -> None:
        """Creates the directories. Raises OSError."""
        for path in (self.registry_dir, self.plugins_dir, self.device_plugins_dir, self.driver_dir, self.cdi_dir):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)


def _moved(path: Path, pairs: Iterable[tuple[Path, Path]]) -> Path:
    """The path with the longest of the first folders replaced by the second one."""
    found = [pair for pair in pairs if path.is_relative_to(pair[0])]
    old, new = max(found, key=lambda pair: len(pair[0].parts), default=(path, path))
    return new / path.relative_to(old)


NAMES = (
    "kubelet_dir",
    "registry_dir",
    "plugins_dir",
    "device_plugins_dir",
    "driver_dir",
    "cdi_dir",
    "kubeconfig",
    "node_name",
    "driver_name",
    "pod_uid",
    "instance",
)
"""The names of all placeholders."""


def placeholders_in(words: Sequence[str]) -> frozenset[str]:
    """The names of the placeholders in these words."""
    return frozenset(name for word in words for name in _PLACEHOLDER.findall(word))


def check_placeholders(words: Sequence[str], *more: str) -> None:
    """Raises ConfigurationError for an unknown placeholder; `more` are the names of further ones."""
    for word in words:
        for name in _PLACEHOLDER.findall(word):
            if name not in (*NAMES, *more):
                raise ConfigurationError(f"unknown placeholder {{{name}}} in {word!r}", near(name, (*NAMES, *more)))


def filled(word: str, values: Mapping[str, str]) -> str:
    """The word with its placeholders replaced; other text in braces, such as JSON, stays."""
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), word)


# The places of a driver in a sandbox: it sees the usual paths, and its directories are folders of the run.
#
# The folders have short names, so that a socket has a path that is usable from outside too.


def private_places(declared: Sandbox, root: Path, kubeconfig: Path | None, node: str, driver_name: str) -> Places:
    """The places of a driver whose sandbox has private directories. The folders are created.

    Raises OSError, and ConfigurationError for a volume whose directory does not exist.
    """
    folders = private_folders(declared, root)
    for path, folder in folders.items():
        if not folder.is_relative_to(root):
            if not folder.is_dir():
                raise ConfigurationError(f"there is no directory {folder} for the volume at {path}", "create it")
            continue
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(_mode(Path(path)))
    for volume in declared.volumes:
        for name, text in volume.files:
            file = folders[_real(volume.path)] / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    kubelet_dir, cdi_dir = folders[_real(KUBELET_DIR)], folders[_real(CDI_DIR)]
    seen = [(Path(path), folders[_real(path)]) for path in declared.private_directories]
    for short, name in (("r", "plugins_registry"), ("p", "plugins")):
        (kubelet_dir / name).mkdir(exist_ok=True)
        (root / short).symlink_to(kubelet_dir / name)
        seen.append((Path(KUBELET_DIR, name), root / short))
    others = {folders[_real(path)] for path in CDI_DIRS} - {cdi_dir}
    places = Places(
        *(kubelet_dir, root / "r", root / "p", cdi_dir, kubeconfig, node, driver_name),
        more_cdi_dirs=tuple(sorted(others)),
        seen=tuple(seen),
        service_account=folders.get(_real(SERVICE_ACCOUNT_DIR)),
    )
    places.make()
    return places


def private_folders(declared: Sandbox, root: Path) -> Mapping[str, Path]:
    """The folder of each private directory. Directories that are the same on this machine share a folder."""
    short = {KUBELET_DIR: root / "k", CDI_DIR: root / "c"}
    found: dict[str, Path] = {}
    for path in declared.private_directories:
        found.setdefault(_real(path), short.get(path, root / f"private{path}"))
    own = dict(found)
    for volume in declared.volumes:
        if volume.source and volume.source != volume.path:
            found[_real(volume.path)] = _of_node(Path(_real(volume.source)), own)
    return found


def sandboxed(declared: Sandbox, root: Path) -> AbstractAsyncContextManager[RunningSandbox]:
    """The sandbox with the private directories of a run. Raises as `processes.sandbox`."""
    folders = {inside: str(folder) for inside, folder in private_folders(declared, root).items()}
    return sandbox(declared.ways(root=os.geteuid() == 0), MountPlan(folders, needed=(str(root),)))


def _of_node(source: Path, own: Mapping[str, Path]) -> Path:
    """Where a directory of the node is: below a folder of the run if it is private; otherwise on this machine."""
    inside = max((path for path in own if source.is_relative_to(path)), key=len, default="")
    return own[inside] / source.relative_to(inside) if inside else source


def _mode(path: Path) -> int:
    """The permissions of a private directory: those that it has on this machine, or the usual ones."""
    try:
        return stat.S_IMODE(path.stat().st_mode) | 0o700
    except OSError:
        return 0o755


def _real(path: str) -> str:
    return os.path.realpath(path)
