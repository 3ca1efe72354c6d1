"""Whether this machine can run a local cluster, as a list of checks with what was found and what to do."""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from drahealth.suites.errors import HarnessError
from drahealth.suites.local import namespaces
from drahealth.suites.local.progress import Progress

MEMORY_NEEDED = 1_000_000_000
DISK_NEEDED = 2_000_000_000
_PYTHON_NEEDED = (3, 11)
_GO_NEEDED = "1.26"
_GIGABYTE = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must be so; `hint` says what to do where it is not."""

    name: str
    ok: bool
    found: str
    hint: str = ""


def examine(version: str) -> Iterator[Check]:
    """All that can be told without starting a node of this Kubernetes release, each as soon as it is known."""
    yield python()
    yield system()
    yield private_namespaces()
    yield programs(version)
    yield cgroups()
    yield memory()
    yield from disks()
    yield socket_paths()


async def node_start(version: str, progress: Progress) -> Check:
    """Starts a node and a control plane of this release, whose programs are got first if they are not there."""
    from drahealth.suites.local.trial import seconds_to_ready

    try:
        seconds = await seconds_to_ready(version, progress)
    except HarnessError as error:
        return Check("a real start", False, error.message, error.hint)
    return Check("a real start", True, f"the node of Kubernetes {version} was Ready after {seconds:.1f} s")


def python() -> Check:
    """The interpreter's version."""
    needed = ".".join(map(str, _PYTHON_NEEDED))
    return Check(
        "Python", sys.version_info >= _PYTHON_NEEDED, platform.python_version(), f"use Python {needed} or newer"
    )


def system() -> Check:
    """The operating system and the architecture."""
    from drahealth.suites.local.releases import this_platform

    try:
        return Check("system", True, str(this_platform()))
    except HarnessError as error:
        return Check("system", False, error.message, error.hint)


def private_namespaces() -> Check:
    """Whether the kernel lets us hide the node's processes and mounts from the machine."""
    name, said = "namespaces", []
    try:
        for options in namespaces.ways():
            if not (refusal := namespaces.refusal(options)):
                kind = "user, mount and process" if options is namespaces.WITH_USER else "mount and process, as root"
                return Check(name, True, f"{kind} namespaces can be made")
            said.append(refusal)
    except HarnessError as error:
        return Check(name, False, error.message, error.hint)
    return Check(name, False, "; ".join(said), namespaces.allow_hint())


def programs(version: str) -> Check:
    """Whether the programs of the release are in the cache or can be got: downloaded, or built with Go."""
    from drahealth.suites.local.download import KUBERNETES_URL
    from drahealth.suites.local.reach import reachable
    from drahealth.suites.local.releases import parse_version
    from drahealth.suites.local.store import Store

    name = f"Kubernetes {version}"
    try:
        number = parse_version(version)
        there = next((release for release in Store().installed() if release.version == number), None)
    except HarnessError as error:
        return Check(name, False, error.message, error.hint)
    if there is not None:
        return Check(name, True, f"{there.folder} ({', '.join(there.origins)})")
    if reachable(KUBERNETES_URL):
        return Check(name, True, f"not in the cache; {KUBERNETES_URL} can be reached")
    can_build, go = _go()
    hint = f"connect to {KUBERNETES_URL.split('/')[2]}, or install Go {_GO_NEEDED} or newer from https://go.dev/dl"
    return Check(name, can_build, f"not in the cache; {KUBERNETES_URL} cannot be reached; {go}", hint)


def cgroups(root: Path = Path("/sys/fs/cgroup")) -> Check:
    """The version of the control groups, which a kubelet insists on finding."""
    hint = "mount /sys/fs/cgroup"
    if (root / "cgroup.controllers").exists():
        return Check("control groups", True, "version 2")
    if (root / "memory").is_dir():
        return Check("control groups", True, "version 1")
    return Check("control groups", False, f"none at {root}", hint)


def memory() -> Check:
    """Memory for one API server, etcd, kubelet, scheduler and controller manager."""
    import psutil

    free = psutil.virtual_memory().available
    return Check("free memory", free >= MEMORY_NEEDED, _size(free), f"{_size(MEMORY_NEEDED)} are needed: end something")


def disks() -> Iterator[Check]:
    """Room for the programs and for the folder of a run."""
    from drahealth.suites.local.run_directory import default_base
    from drahealth.suites.local.store import default_root

    for name, folder, setting in (("cache", default_root(), "DRAHEALTH_CACHE"), ("run", default_base(), "TMPDIR")):
        free = shutil.disk_usage(_nearest(folder)).free
        hint = f"{_size(DISK_NEEDED)} are needed: make room, or set {setting} to another folder"
        yield Check(f"disk for the {name} folder", free >= DISK_NEEDED, f"{_size(free)} free at {folder}", hint)


def socket_paths() -> Check:
    """Whether the sockets of drivers fit below the folder of a run."""
    from drahealth.suites.local.run_directory import LONGEST_BASE, default_base

    base = default_base()
    ok = len(os.fsencode(base)) <= LONGEST_BASE and os.access(base, os.W_OK)
    return Check(
        "run folder", ok, f"runs live in {base}", "make /tmp writable, or set TMPDIR to a short writable folder"
    )


def _go() -> tuple[bool, str]:
    from drahealth.suites.local.go_modules import too_old

    go = shutil.which("go")
    if go is None:
        return False, "there is no Go toolchain"
    done = subprocess.run([go, "env", "GOVERSION", "GOTOOLCHAIN"], capture_output=True, text=True, check=False)
    found, policy = [*done.stdout.splitlines(), "", ""][:2]
    old = too_old(found, policy, _GO_NEEDED)
    return done.returncode == 0 and not old, f"{found or go} is too old" if old else f"{found or go} can build it"


def _nearest(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())


def _size(number: int) -> str:
    return f"{number / _GIGABYTE:.1f} GB"
