"""The folder of one named node: private, and locked while a process of the node runs.

The lock is inherited by the keeper of the node's processes. So a free lock means that all of them have ended.
"""

import fcntl
import os
import re
from contextlib import suppress
from pathlib import Path

from drahealth.fakes.control.node_folder import CONTROL_SOCKET, DEFAULT_NODE, VARIABLE, nodes_folder
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.targets.removal import remove_folder

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
                f"set {VARIABLE} to a shorter path; the folder contains unix sockets, whose paths are limited",
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
                f"other users can access {self.path}", f"remove it, or set {VARIABLE} to another folder"
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


def unwritable(path: Path, error: OSError) -> HarnessError:
    """The error for a folder that cannot be written."""
    return HarnessError(
        f"cannot write {path}: {error.strerror}", f"free some disk space, or set {VARIABLE} to another short folder"
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


def folders() -> list[NodeFolder]:
    """The folders of all nodes of this user, by name."""
    base = nodes_folder()
    names = sorted(path.name for path in base.iterdir() if _NAME.fullmatch(path.name)) if base.is_dir() else []
    return [node for name in names if (node := NodeFolder(name, base)).exists()]
