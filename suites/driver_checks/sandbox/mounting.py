"""The mounts and the loopback sockets inside a sandbox."""

import fcntl
import os
import socket
import stat
import struct
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from drahealth.suites.targets import namespaces
from drahealth.suites.targets.namespaces import BIND, NODEV, NOEXEC, NOSUID, PRIVATE, RDONLY, REC, REMOUNT, mount

# TCP on the loopback interface of the present network namespace.

_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1


def enable_loopback() -> None:
    """Enables the loopback interface (netdevice(7)). Raises OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", _IFF_UP))


def bound(port: int) -> socket.socket:
    """A socket at this port of loopback; 0 for a free one. Raises OSError.

    Several of ours can share a port: it stays ours while none listens.
    """
    found = socket.socket()
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        found.bind(("127.0.0.1", port))
    except OSError:
        found.close()
        raise
    return found


# The mounts of a sandbox. Runs inside its mount namespace, where nothing of this reaches the machine.
#
# A mount needs a directory to be mounted on. Where it is missing, its parent gets a copy: a tmpfs in which each entry
# of the real directory is mounted again. So nothing is created on the machine.

DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
"""Device files in a private /dev. Source: OCI runtime specification, "Default Devices"."""
_LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}


class Mounts:
    """Makes the mounts of this namespace. Methods raise OSError."""

    def __init__(self) -> None:
        mount("none", "/", flags=REC | PRIVATE)
        self._own: list[Path] = []  # directories in which entries can be made
        self._copied: set[Path] = set()

    def bind(self, folders: Mapping[str, str], needed: Sequence[str]) -> None:
        """Mounts each folder (value) at a directory (key). `needed` are folders that these mounts must not hide."""
        outside = [(Path(os.path.realpath(inside)), _handle(folder)) for inside, folder in folders.items()]
        hidden = [(Path(path), _handle(path)) for path in needed]
        old_dev = _handle("/dev")
        for point, handle in sorted(outside, key=lambda one: len(one[0].parts)):
            self._bind(point, handle)
            if point == Path("/dev"):
                _fill_dev(old_dev)
        for point, handle in sorted(hidden, key=lambda one: len(one[0].parts)):
            if any(point.is_relative_to(inside) for inside, _ in outside) and not point.exists():
                self._bind(point, handle)
        for handle in {handle for _, handle in (*outside, *hidden)} | {old_dev}:
            os.close(handle)

    def _bind(self, point: Path, handle: int) -> None:
        self._make(point)
        mount(f"/proc/self/fd/{handle}", str(point), flags=BIND | REC)
        self._own.append(point)

    def _make(self, point: Path) -> None:
        """Makes a directory, in a copy of its nearest existing parent if that is not of the sandbox."""
        parent = point
        while not parent.exists():
            parent = parent.parent
        if parent != point:
            if parent not in self._copied and not any(parent.is_relative_to(own) for own in self._own):
                self._copy(parent)
            point.mkdir(parents=True)

    def _copy(self, folder: Path) -> None:
        """Replaces a directory by a tmpfs with the same entries."""
        entries = [(entry.name, mode) for entry in os.scandir(folder) if (mode := _mode(entry))]
        handle = _handle(str(folder))
        mode = stat.S_IMODE(folder.stat().st_mode)
        mount("tmpfs", str(folder), "tmpfs", NOSUID | NODEV, f"mode={mode:o},size=16m")
        for name, kind in entries:
            source, target = f"/proc/self/fd/{handle}/{name}", folder / name
            if stat.S_ISLNK(kind):
                target.symlink_to(Path(source).readlink())
            else:
                target.mkdir() if stat.S_ISDIR(kind) else target.touch()
                with suppress(FileNotFoundError):  # it was removed meanwhile
                    mount(source, str(target), flags=BIND | REC)
        os.close(handle)
        self._copied.add(folder)


def _mode(entry: "os.DirEntry[str]") -> int:
    """Its mode; 0 if it was removed meanwhile."""
    try:
        return entry.stat(follow_symlinks=False).st_mode
    except FileNotFoundError:
        return 0


def missing_root(directories: Iterable[str]) -> str:
    """The first directory that cannot be made in a sandbox: it is missing, and so are its parents except `/`."""
    return next((path for path in directories if not Path("/", Path(path).parts[1]).exists()), "")


def protect_sys() -> None:
    """Makes /sys and all mounts in it read-only."""
    for entry in namespaces.table():
        if Path(entry.point).is_relative_to("/sys"):
            mount("none", entry.point, flags=entry.flags | REMOUNT | BIND | RDONLY)


def mount_proc() -> None:
    """Mounts the /proc of this process namespace."""
    mount("proc", "/proc", "proc", NOSUID | NODEV | NOEXEC)


def _fill_dev(old: int) -> None:
    for name in DEVICES:
        source, target = Path(f"/proc/self/fd/{old}/{name}"), Path("/dev", name)
        if source.exists():
            target.touch()
            mount(str(source), str(target), flags=BIND)
    for name in ("shm", "pts"):
        Path("/dev", name).mkdir(exist_ok=True)
    mount("tmpfs", "/dev/shm", "tmpfs", NOSUID | NODEV, "mode=1777,size=64m")
    if Path(f"/proc/self/fd/{old}/pts").exists():
        mount(f"/proc/self/fd/{old}/pts", "/dev/pts", flags=BIND)
    for name, text in _LINKS.items():
        Path("/dev", name).symlink_to(text)


def _handle(path: str) -> int:
    return os.open(path, os.O_PATH)
