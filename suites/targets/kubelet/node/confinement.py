"""What the cluster's processes see of the machine: all of it, but they can write to the run's folder alone.

A kubelet is made to own its machine: it sets sysctls, deletes what matches a container's log path, makes folders
below /var/lib and /var/log. Inside the private mount namespace of its keeper every mount becomes read-only but the
run's folder; /var/lib and /var/log are empty memory; the folder of the device plugins, which no flag moves from
/var/lib/kubelet/device-plugins, is one of the run's; and names are resolved by two files of the run's. A user
namespace alone would not do for root, who keeps the right to write what root owns.
"""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from drahealth.suites.targets.kubelet.node import mounts
from drahealth.suites.targets.kubelet.node.mounts import (
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

DEVICE_PLUGINS = "device-plugins"
"""The run's folder that the kubelet finds at /var/lib/kubelet/device-plugins."""
RESOLUTION = {
    "hosts": "127.0.0.1 localhost\n",
    "resolv.conf": "nameserver 127.255.255.254\n",  # refuses at once, where a lost network would let a kubelet wait
}
"""The run's files that its processes find in /etc, and what to write there."""
_OFTEN_WRITTEN = ("/var/lib", "/var/log")


def confine(run_dir: Path, needed: Sequence[Path]) -> list[str]:
    """Arranges the mounts; `needed` are folders that must stay visible. Gives the mounts that stayed writable.

    Raises OSError where this namespace may not mount at all.
    """
    mount("none", "/", flags=REC | PRIVATE)
    mount(str(run_dir), str(run_dir), flags=BIND | REC)
    writable = _protect(str(run_dir))
    with contextlib.suppress(OSError):  # refused where /proc is partly hidden, as in containers: the outer one serves
        mount("proc", "/proc", "proc", NOSUID | NODEV | NOEXEC | RDONLY)
    kept = [(folder, os.open(folder, os.O_PATH)) for folder in (run_dir, *needed)]
    for place in _OFTEN_WRITTEN:
        _empty(place, kept)
    for _, handle in kept:
        os.close(handle)
    for name in RESOLUTION:
        with contextlib.suppress(FileNotFoundError):  # a machine without one has nothing to replace
            mount(str(run_dir / name), f"/etc/{name}", flags=BIND)
    plugins = Path("/var/lib/kubelet") / DEVICE_PLUGINS
    plugins.mkdir(parents=True)
    mount(str(run_dir / DEVICE_PLUGINS), str(plugins), flags=BIND)
    return writable


def open_writable(folder: Path, through: Path) -> int:
    """A handle of a folder that stays writable when its mount no longer is; `through` is an empty folder."""
    mount(str(folder), str(through), flags=BIND | REC)
    handle = os.open(through, os.O_RDONLY | os.O_DIRECTORY)
    detach(str(through))
    return handle


def release(folder: Path) -> None:
    """Takes away every mount at or below the folder."""
    for entry in reversed(mounts.table()):
        if Path(entry.point).is_relative_to(folder):
            with contextlib.suppress(OSError):
                detach(entry.point)


def _protect(run_dir: str) -> list[str]:
    failed = []
    for entry in mounts.table():
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
