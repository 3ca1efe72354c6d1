"""mount(2) and related calls, and the mounts of this process, which Python lacks."""

import ctypes
import os
import re
from dataclasses import dataclass
from pathlib import Path

RDONLY, NOSUID, NODEV, NOEXEC = 1, 2, 4, 8
REMOUNT, BIND, REC, PRIVATE = 32, 4096, 16384, 1 << 18
_DETACH = 2
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


def detach(target: str) -> None:
    """Detaches a mount; open files in it stay open."""
    if _LIBC.umount2(os.fsencode(target), _DETACH):
        raise OSError(ctypes.get_errno(), f"umount: {os.strerror(ctypes.get_errno())}", target)


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
