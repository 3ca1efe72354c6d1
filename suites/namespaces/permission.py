"""The namespaces of processes, and whether this machine allows them."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from drahealth.suites.errors import HarnessError

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
