"""Namespaces of this machine: whether they are allowed, and mounts in them."""

import ctypes
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from drahealth.suites.errors import HarnessError

# The namespaces of processes, and whether this machine allows them.

WITH_USER = ("--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child")
"""With a user namespace first: for any user."""
WITHOUT_USER = ("--mount", "--pid", "--fork", "--kill-child")
"""Without a user namespace: for root where user namespaces are forbidden."""

_SWITCHES: Mapping[str, tuple[str, str]] = {
    "kernel/apparmor_restrict_unprivileged_userns": ("1", "sysctl kernel.apparmor_restrict_unprivileged_userns=0"),
    "kernel/unprivileged_userns_clone": ("0", "sysctl kernel.unprivileged_userns_clone=1"),
    "user/max_user_namespaces": ("0", "sysctl user.max_user_namespaces=10000"),
}


def unshare() -> str:
    """The path of unshare(1). Raises HarnessError if it is missing."""
    found = shutil.which("unshare")
    if found is None:
        raise HarnessError("the program unshare is missing", "install util-linux")
    return found


def ways() -> Sequence[Sequence[str]]:
    """The options of unshare(1) to try in turn."""
    return (WITH_USER, WITHOUT_USER) if os.geteuid() == 0 else (WITH_USER,)


def refusal(options: Sequence[str]) -> str:
    """Tries these namespaces with a mount inside. Returns the error, or "" if it works."""
    command = [unshare(), *options, "mount", "-t", "tmpfs", "none", "/var/lib"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr.strip() or f"exit code {done.returncode}"


def allow_hint(sysctls: Path = Path("/proc/sys")) -> str:
    """What to change so that this machine allows user namespaces."""
    commands = [command for name, (forbids, command) in _SWITCHES.items() if _read(sysctls / name) == forbids]
    if commands:
        return f"allow user namespaces: {' and '.join(commands)}"
    return "in a container, use a seccomp profile that allows unshare and mount; elsewhere, run as root"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


# mount(2) and related calls, and the mounts of this process, which Python lacks.

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
