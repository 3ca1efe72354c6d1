"""The folder of one named node, and the state file in it: its process, its programs and its paths."""

import fcntl
import json
import os
import re
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from drahealth.fakes.control.socket_path import (
    CONTROL_SOCKET,
    DEFAULT_NODE,
    FLEET_SOCKET,
    STATE_VARIABLE,
    nodes_folder,
)
from drahealth.fakes.program.private_files import replace_file
from drahealth.proto.quoting import one_line
from drahealth.proto.version import __version__
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.fleet.topology import NODES_PER_RACK
from drahealth.suites.targets.kubelet.binaries import Binaries
from drahealth.suites.targets.kubelet.control_plane import ComponentGates, gates_by_component
from drahealth.suites.targets.progress import Progress
from drahealth.suites.targets.removal import remove_folder

# Where drivers find the kubelet and the API server of a node: the same for its supervisor and for other processes.


@dataclass(frozen=True, slots=True)
class NodePaths:
    """The paths of a node, for drivers."""

    kubelet_root: Path
    device_plugins_dir: Path
    kubeconfig: Path
    """With a token, which needs no client library."""

    @classmethod
    def of(cls, folder: Path, *, reference: bool) -> "NodePaths":
        """The paths in the folder of a node, which need not run."""
        from drahealth.suites.targets.kubelet.layout import ADMIN, Layout

        layout = Layout(folder)
        root = layout.kubelet_root
        if reference:
            return cls(root, root / "device-plugins", root / "kubeconfig")
        return cls(root, layout.device_plugins_dir, layout.kubeconfig(ADMIN))

    @property
    def registry_dir(self) -> Path:
        """Where drivers put their registration sockets."""
        return self.kubelet_root / "plugins_registry"

    @property
    def plugins_dir(self) -> Path:
        """Where drivers put their own sockets."""
        return self.kubelet_root / "plugins"


# The folder of one named node: private, and locked while a process of the node runs.
#
# The lock is inherited by the keeper of the node's processes. So a free lock means that all of them have ended.

LONGEST = 55
"""The longest path of a folder in bytes. It leaves 52 for `/k/plugins_registry/DRIVER-reg.sock`."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,18}[a-z0-9])?")
_LOCK = "lock"
_INTERVAL = 0.05


class NodeFolder:
    """The folder of the node with this name; it need not exist. Raises ConfigurationError for an invalid name."""

    def __init__(self, name: str, base: Path | None = None) -> None:
        if not _NAME.fullmatch(name):
            raise ConfigurationError(
                f"the name of a node must have at most 20 lower-case letters, digits and inner hyphens, got {name!r}",
                "for example --name gpu-node",
            )
        self.name = name
        self.path = (base or nodes_folder()) / name

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig for users."""
        return self.path / "kubeconfig"

    @property
    def socket(self) -> Path:
        """The control socket of the drivers."""
        return self.path / CONTROL_SOCKET

    @property
    def fleet_socket(self) -> Path:
        """The control socket of the fleet."""
        return self.path / FLEET_SOCKET

    @property
    def inventory(self) -> Path:
        """The inventory of the drivers, copied from the user's file."""
        return self.path / "inventory.yaml"

    @property
    def logs(self) -> Path:
        """The folder of the logs, one for each component."""
        return self.path / "logs"

    def exists(self) -> bool:
        """Whether the node has data. Another folder of this name is no node."""
        return (self.path / _LOCK).is_file()

    def make(self) -> None:
        """Makes the folder for this user alone. Raises HarnessError if that is not possible."""
        if len(os.fsencode(self.path)) > LONGEST:
            raise ConfigurationError(
                f"the path of a node's folder must have at most {LONGEST} bytes, got {self.path}",
                f"set {STATE_VARIABLE} to a shorter path; the folder contains unix sockets, whose paths are limited",
            )
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.mkdir(mode=0o700, exist_ok=True)
            self.logs.mkdir(exist_ok=True)
            found = self.path.stat()
        except OSError as error:
            raise unwritable(self.path, error) from None
        if found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise ConfigurationError(
                f"other users can access {self.path}", f"remove it, or set {STATE_VARIABLE} to another folder"
            )

    def lock(self, patience: float = 0.0) -> int | None:
        """The handle of the locked folder; None if a process of the node still runs after `patience` seconds.

        Closing all copies of the handle releases it. The folder must exist.
        """
        if not patience:
            return self._try_lock()
        from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed  # 30 ms, which most calls save

        again = Retrying(
            retry=retry_if_result(lambda handle: handle is None),
            wait=wait_fixed(_INTERVAL),
            stop=stop_after_delay(patience),
            retry_error_callback=lambda _: None,
        )
        return again(self._try_lock)

    def remove(self) -> None:
        """Removes the locked folder, first under another name: nobody sees a part of it."""
        with suppress(FileNotFoundError):
            self.path.rename(self.path.with_name(f".{self.name}-{os.getpid()}"))
        for gone in self.path.parent.glob(f".{self.name}-[0-9]*"):  # also what a killed command did not finish
            remove_folder(gone)

    def _try_lock(self) -> int | None:
        try:
            handle = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise unwritable(self.path, error) from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(handle), (self.path / _LOCK).stat()):
                return handle
        except (BlockingIOError, FileNotFoundError):  # in use, or removed meanwhile
            pass
        os.close(handle)
        return None


def further_folders(first: NodeFolder, nodes: int) -> list[NodeFolder]:
    """The folders of the other nodes of this control plane: NAME-2 to NAME-`nodes`.

    Raises ConfigurationError if a name gets too long.
    """
    names = [f"{first.name}-{number}" for number in range(2, nodes + 1)]
    if names and not _NAME.fullmatch(names[-1]):
        longest = 20 - len(names[-1]) + len(first.name)
        raise ConfigurationError(
            f"the name of a node must have at most 20 characters, got {names[-1]!r}",
            f"with --nodes {nodes}, pass a --name of at most {longest} characters",
        )
    return [NodeFolder(name, first.path.parent) for name in names]


def unwritable(path: Path, error: OSError) -> HarnessError:
    """The error for a folder that cannot be written."""
    return HarnessError(
        f"cannot write {path}: {error.strerror}",
        f"free some disk space, or set {STATE_VARIABLE} to another short folder",
    )


def existing(name: str, *, to_remove: bool = False) -> NodeFolder:
    """The folder of a node with data. Raises ConfigurationError if there is none, with what to do."""
    folder = NodeFolder(name)
    if folder.exists():
        return folder
    names = [each.name for each in folders()]
    there = f"there is no node {name} (nodes: {', '.join(names) or 'none'})"
    start = "drahealth up" if name == DEFAULT_NODE else f"drahealth up --name {name}"
    choose = "pass --name with one of these nodes" if names else "nothing was removed"
    raise ConfigurationError(there, choose if to_remove else f"`{start}` creates it")


def folders(base: Path | None = None) -> list[NodeFolder]:
    """The folders of all nodes of this user, by name."""
    base = base or nodes_folder()
    names = sorted(path.name for path in base.iterdir() if _NAME.fullmatch(path.name)) if base.is_dir() else []
    return [node for name in names if (node := NodeFolder(name, base)).exists()]


def joined_folders(first: NodeFolder) -> list[NodeFolder]:
    """The folders of the other nodes of this control plane that have data, by name."""
    return [each for each in folders(first.path.parent) if first_of(each) == first.name]


def first_of(folder: NodeFolder) -> str:
    """The name of the node with the control plane, if that is another one; "" also for an unreadable state."""
    try:
        state = read_state(folder.path)
    except ConfigurationError:
        return ""
    return state.first if state else ""


# Which process it is: a process ID is used again, also after the machine was started again.

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_START = 19
"""The place of the start time among the fields after the name in /proc/PID/stat (proc(5), field 22)."""


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process ID with the start time of the process in clock ticks, and the ID of the boot of the machine."""

    pid: int
    started: int
    boot: str

    @classmethod
    def own(cls) -> "ProcessIdentity":
        """That of this process."""
        return cls(os.getpid(), _started(os.getpid()) or 0, _boot())

    def runs(self) -> bool:
        """Whether this very process still runs."""
        return self.boot == _boot() and self.started == _started(self.pid)

    def signal(self, number: signal.Signals) -> None:
        """Signals the process; harmless if it has ended."""
        with suppress(ProcessLookupError):
            if self.runs():
                os.kill(self.pid, number)


def _boot() -> str:
    return _BOOT_ID.read_text(encoding="utf-8").strip()


def _started(pid: int) -> int | None:
    """None for a process that does not exist, or has ended and was not waited for yet."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if status[0] == "Z" else int(status[_START])


# The state file of a node: what it was started with, its process, and how far it is.
#
# Commands read it in other processes, also those of another release of drahealth. So it has a format with a number.

FORMAT = 1
"""The number of this format. A newer one is never read."""
_STATE_FILE = "state.json"

Phase = Literal["starting", "ready", "leaving", "joining", "stopped", "failed"]
"""`stopped` and `failed` stay true without the process of the state. A command writes `leaving` or `joining` for a node
that is not the first, then sends `LOOK` to the process, which ends or starts this node and no other."""
LOOK = signal.SIGUSR1


@dataclass(frozen=True, slots=True)
class NodeState:
    """The state of a node; `kubernetes` is "" for the reference, `problem` says why it failed."""

    kubernetes: str
    gates: dict[str, bool] = field(default_factory=dict)
    phase: Phase = "starting"
    problem: str = ""
    server: str = ""
    """URL of the API server."""
    process: ProcessIdentity | None = None
    """The supervisor, which owns all other processes, also those of the other nodes."""
    drivers: list[list[str]] = field(default_factory=list)
    """The name of each driver, with its first device."""
    nodes: int = 1
    """The number of nodes of the control plane."""
    first: str = ""
    """The name of the node with the control plane, if that is another one."""
    fleet: int = 0
    """The number of hollow nodes of the control plane."""
    rack: int = NODES_PER_RACK
    """The number of hollow nodes in a rack."""
    metrics: str = ""
    """URL of the metrics of the fleet."""
    format: int = FORMAT
    drahealth: str = __version__

    @property
    def reference(self) -> bool:
        """Whether the node is the reference, without a kubelet."""
        return not self.kubernetes

    @property
    def title(self) -> str:
        """What runs, for people."""
        return "the reference" if self.reference else f"Kubernetes {self.kubernetes}"

    def of_joined(self, first: NodeFolder) -> "NodeState":
        """The state of another node of the control plane, from that of the first node."""
        return replace(self, first=first.name)

    def at(self, phase: Phase, **changes: Any) -> "NodeState":
        """The state in another phase."""
        return replace(self, phase=phase, **changes)


def write_state(folder: Path, state: NodeState) -> None:
    """Replaces the state file. Raises OSError."""
    replace_file(folder / _STATE_FILE, json.dumps(asdict(state), indent=1).encode() + b"\n")


def read_state(folder: Path) -> NodeState | None:
    """The state of the node; None before its first start. Raises ConfigurationError for a file that is not ours."""
    path = folder / _STATE_FILE
    try:
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read: {one_line(str(error))}", _remove(folder)) from None
    number = data.get("format") if isinstance(data, dict) else None
    if isinstance(number, int) and number > FORMAT:
        raise ConfigurationError(
            f"{folder} was made by a newer drahealth ({one_line(str(data.get('drahealth')))})",
            f"install that release, or {_remove(folder)}",
        )
    try:
        process = data.get("process")
        known = {each.name: data[each.name] for each in fields(NodeState) if each.name in data}
        return NodeState(**known | {"process": ProcessIdentity(**process) if process else None})
    except (AttributeError, TypeError) as error:
        raise ConfigurationError(f"{path} is damaged: {one_line(str(error))}", _remove(folder)) from None


def _remove(folder: Path) -> str:
    return f"remove the node with `drahealth down --name {folder.name}`"


def has_state(folder: Path) -> bool:
    """Whether there is a state file, readable or not."""
    return (folder / _STATE_FILE).exists()


def is_ready(state: NodeState | None) -> bool:
    """Whether the node runs, and is Ready."""
    return state is not None and state.phase == "ready" and state.process is not None and state.process.runs()


def ready(name: str) -> tuple[NodeFolder, NodeState]:
    """The folder and the state of a Ready node. Raises ConfigurationError if there is none, HarnessError if it does not
    run."""
    folder = existing(name)
    state = read_state(folder.path)
    if state is None or not is_ready(state):
        raise HarnessError(f"node {name} is not up", f"start it with `drahealth up --name {name}`")
    return folder, state


# The programs of a node of `drahealth up`, and the feature gates of each. All errors come before a process starts.


@dataclass(frozen=True, slots=True)
class Components:
    """The programs of a real node, and the feature gates of each."""

    binaries: Binaries
    gates: ComponentGates


def components_of(state: NodeState, progress: Progress) -> Components | None:
    """None for the reference, whose gates are only checked.

    Raises ConfigurationError for an unknown gate, HarnessError if a program cannot be had.
    """
    if state.reference:
        from drahealth.suites.manager_command.program import gates_of

        gates_of(gates_text(state.gates))
        return None
    from drahealth.suites.targets.kubelet.ensure import ensure
    from drahealth.suites.targets.versions import feature_gates, profile_of

    binaries = ensure(state.kubernetes, progress)
    gates = feature_gates(profile_of(state.kubernetes))
    if not state.gates:  # no program needs to print its help
        return Components(binaries, ComponentGates(gates, gates))
    return Components(binaries, gates_by_component(binaries, {**gates, **state.gates}))


def gates_text(gates: Mapping[str, bool]) -> str:
    """The gates as an option of a command has them."""
    return ",".join(f"{name}={str(on).lower()}" for name, on in gates.items())
