"""mount(2), and the mounts inside of a sandbox."""

import ctypes
import os
import re
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

# mount(2) and related calls, and the mounts of this process, which Python lacks.

RDONLY, NOSUID, NODEV, NOEXEC = 1, 2, 4, 8
REMOUNT, BIND, REC, PRIVATE = 32, 4096, 16384, 1 << 18
_FLAGS = {
    "ro": RDONLY,
    "nosuid": NOSUID,
    "nodev": NODEV,
    "noexec": NOEXEC,
    "nodiratime": 2048,
    "nosymfollow": 256,
    "noatime": 1024,
    "relatime": 1 << 21,
}
_STRICTATIME = 1 << 24
_ESCAPED = re.compile(r"\\(\d{3})")
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Mount:
    """A line of mountinfo: the mount point, and its flags for mount(2)."""

    point: str
    flags: int


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """Raises OSError with the target."""
    arguments = [os.fsencode(text) or None for text in (source, target, kind)]
    if _LIBC.mount(*arguments, ctypes.c_ulong(flags), os.fsencode(data) or None):
        raise OSError(ctypes.get_errno(), f"mount: {os.strerror(ctypes.get_errno())}", target)


def table() -> list[Mount]:
    """All mounts of this process, in the order in which they were made."""
    lines = os.fsdecode(Path("/proc/self/mountinfo").read_bytes()).splitlines()
    return [parse_mount(line) for line in lines]


def parse_mount(line: str) -> Mount:
    """One line of /proc/self/mountinfo (proc_pid_mountinfo(5))."""
    fields = line.split(" ")
    options = fields[5].split(",")
    flags = sum(_FLAGS.get(option, 0) for option in options)
    if not {"noatime", "relatime"} & set(options):
        flags |= _STRICTATIME
    return Mount(_ESCAPED.sub(lambda match: chr(int(match[1], 8)), fields[4]), flags)


# A sandbox as data: its namespaces, and its mounts.

Namespace = Literal["user", "mount", "network", "pid"]
"""A kind of namespaces(7)."""


@dataclass(frozen=True, slots=True)
class MountPlan:
    """What a sandbox with a mount namespace sees of the machine."""

    folders: Mapping[str, str] = field(default_factory=dict)
    """Directories or files in the sandbox, and what of the machine is mounted there."""
    needed: tuple[str, ...] = ()
    """Directories of the machine that the others must not hide."""
    empty: tuple[str, ...] = ()
    """Directories that are empty memory in the sandbox."""
    writable: tuple[str, ...] | None = None
    """The only directories of the machine that can be written; None for all but /sys. Some mounts may stay writable,
    where the machine does not allow more."""


def missing_root(directories: Iterable[str]) -> str:
    """The first directory that cannot be made in a sandbox: it is missing, and so are its parents except `/`."""
    return next((path for path in directories if not Path("/", Path(path).parts[1]).exists()), "")


# Makes the mounts. Runs inside of the mount namespace, where nothing of this reaches the machine.
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

    def make(self, plan: MountPlan) -> None:
        """Makes all mounts of a plan."""
        for folder in plan.writable or ():
            mount(folder, folder, flags=BIND | REC)
        _protect(plan.writable)
        outside = [(Path(os.path.realpath(inside)), _handle(folder)) for inside, folder in plan.folders.items()]
        hidden = [(Path(path), _handle(path)) for path in (*plan.needed, *(plan.writable or ()))]
        old_dev = _handle("/dev")
        for folder in plan.empty:
            mount("tmpfs", folder, "tmpfs", NOSUID | NODEV, "mode=755,size=64m")
            self._own.append(Path(folder))
        for point, handle in sorted(outside, key=lambda one: len(one[0].parts)):
            self._bind(point, handle)
            if point == Path("/dev"):
                _fill_dev(old_dev)
        hiding = [*map(Path, plan.empty), *(inside for inside, _ in outside)]
        for point, handle in sorted(hidden, key=lambda one: len(one[0].parts)):
            if any(point.is_relative_to(inside) for inside in hiding) and not point.exists():
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


def mount_proc(*, read_only: bool) -> None:
    """Mounts the /proc of this process namespace.

    If it is to be read-only, the one of the machine stays where it cannot: a container may hide parts of its /proc.
    """
    try:
        mount("proc", "/proc", "proc", NOSUID | NODEV | NOEXEC | (RDONLY if read_only else 0))
    except OSError:
        if not read_only:
            raise


def _protect(writable: tuple[str, ...] | None) -> None:
    """Makes all mounts but these read-only, as far as that is possible. With None, only /sys and all mounts in it."""
    for entry in table():
        if entry.point in (writable or ()) or (writable is None and not Path(entry.point).is_relative_to("/sys")):
            continue
        try:
            mount("none", entry.point, flags=entry.flags | REMOUNT | BIND | RDONLY)
        except OSError:
            if writable is None:
                raise


def _mode(entry: "os.DirEntry[str]") -> int:
    """Its mode; 0 if it was removed meanwhile."""
    try:
        return entry.stat(follow_symlinks=False).st_mode
    except FileNotFoundError:
        return 0


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
