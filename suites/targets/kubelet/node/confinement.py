"""The mounts of the cluster's processes: they can read the machine, and write only to the folder of the run.

A kubelet assumes that it owns its machine: it sets sysctls, deletes files that match the log path of a container, and
makes folders below /var/lib and /var/log. So its keeper has a private mount namespace. There every mount but the
folder of the run is read-only, /var/lib and /var/log are empty memory, and two files of the run resolve names. The
kubelet's root is mounted at /var/lib/kubelet too. No flag moves device-plugins below it, so a folder of the run is
mounted there. A user namespace alone is not enough for root, who can still write the files of root.
"""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from drahealth.suites.targets import namespaces
from drahealth.suites.targets.namespaces import (
    BIND,
    NODEV,
    NOEXEC,
    NOSUID,
    PRIVATE,
    RDONLY,
    REC,
    REMOUNT,
    detach,
    mount,
)

ROOT = "k"
"""The folder of the run that is the kubelet's root, also mounted at /var/lib/kubelet: drivers name paths there."""
DEVICE_PLUGINS = "device-plugins"
"""The folder of the run that is mounted at /var/lib/kubelet/device-plugins."""
RESOLUTION = {
    "hosts": "127.0.0.1 localhost {node}\n",
    "resolv.conf": "nameserver 127.255.255.254\n",  # refuses at once, where a lost network would let a kubelet wait
}
"""Files of the run that are mounted in /etc, and their content, with the name of the node."""
_HOME = Path("/var/lib/kubelet")
_OFTEN_WRITTEN = ("/var/lib", "/var/log")


def confine(run_dir: Path, needed: Sequence[Path]) -> list[str]:
    """Makes the mounts; `needed` are folders that must stay visible. Returns the mounts that stayed writable.

    Raises OSError if this namespace cannot mount.
    """
    mount("none", "/", flags=REC | PRIVATE)
    mount(str(run_dir), str(run_dir), flags=BIND | REC)
    writable = _protect(str(run_dir))
    with contextlib.suppress(OSError):  # fails if /proc is partly hidden, as in containers; then the outer one stays
        mount("proc", "/proc", "proc", NOSUID | NODEV | NOEXEC | RDONLY)
    kept = [(folder, os.open(folder, os.O_PATH)) for folder in (run_dir, *needed)]
    for place in _OFTEN_WRITTEN:
        _empty(place, kept)
    for _, handle in kept:
        os.close(handle)
    for name in RESOLUTION:
        with contextlib.suppress(FileNotFoundError):  # nothing to replace on a machine without it
            mount(str(run_dir / name), f"/etc/{name}", flags=BIND)
    if (run_dir / DEVICE_PLUGINS).is_dir():
        _HOME.mkdir()
        mount(str(run_dir / ROOT), str(_HOME), flags=BIND)
        (_HOME / DEVICE_PLUGINS).mkdir(exist_ok=True)
        mount(str(run_dir / DEVICE_PLUGINS), str(_HOME / DEVICE_PLUGINS), flags=BIND)
    return writable


def open_writable(folder: Path, through: Path) -> int:
    """A handle of a folder that stays writable after its mount becomes read-only; `through` is an empty folder."""
    mount(str(folder), str(through), flags=BIND | REC)
    handle = os.open(through, os.O_RDONLY | os.O_DIRECTORY)
    detach(str(through))
    return handle


def release(folder: Path) -> None:
    """Removes every mount at or below the folder, also where it is mounted at /var/lib/kubelet."""
    for entry in reversed(namespaces.table()):
        if any(Path(entry.point).is_relative_to(place) for place in (folder, _HOME)):
            with contextlib.suppress(OSError):
                detach(entry.point)


def _protect(run_dir: str) -> list[str]:
    failed = []
    for entry in namespaces.table():
        if entry.point != run_dir:
            try:
                mount("none", entry.point, flags=entry.flags | REMOUNT | BIND | RDONLY)
            except OSError:
                failed.append(entry.point)
    return failed


def _empty(place: str, kept: Sequence[tuple[Path, int]]) -> None:
    mount("tmpfs", place, "tmpfs", NOSUID | NODEV, "mode=755,size=64m")
    for folder, handle in kept:
        if folder.is_relative_to(place):
            folder.mkdir(parents=True, exist_ok=True)
            mount(f"/proc/self/fd/{handle}", str(folder), flags=BIND | REC)
