"""The checks of `drahealth doctor` for the kubelet target."""

import asyncio
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

from drahealth.fakes.cluster.cri import CriServer
from drahealth.fakes.cluster.runtime import ContainerRuntime
from drahealth.manager.releases import DEFAULT_VERSION, RELEASES
from drahealth.suites.errors import HarnessError
from drahealth.suites.processes import sandbox as namespaces
from drahealth.suites.targets.kubelet import ensure as binaries
from drahealth.suites.targets.kubelet.binaries import ETCD_VERSION, this_platform
from drahealth.suites.targets.kubelet.cluster import LocalCluster
from drahealth.suites.targets.progress import Progress, silent
from drahealth.suites.targets.registry import Check
from drahealth.suites.targets.run_directory import RunDirectory
from drahealth.suites.targets.versions import parse_version

# One start of a local cluster, to check that it works on this machine.


async def seconds_to_ready(version: str, progress: Progress = silent, kubelet: Path | None = None) -> float:
    """Starts and stops a node, with this kubelet or that of the release.

    Returns the seconds from the first process to Ready. Raises HarnessError.
    """
    released = binaries.ensure(version, progress)
    programs = replace(released, kubelet=kubelet) if kubelet else released
    run = RunDirectory.create()
    containers = ContainerRuntime()
    runtime = CriServer(containers, run.path / "cri.sock", run.path / "containers")
    cluster = LocalCluster(programs, run_dir=run, cri_socket=runtime.socket)
    try:
        await runtime.start()
        since = time.monotonic()
        await cluster.start()
        return time.monotonic() - since
    finally:
        await cluster.stop()
        await runtime.stop()
        await containers.close()


# The checks of `drahealth doctor` for the kubelet target.

MEMORY_NEEDED = 1_000_000_000
DISK_NEEDED = 2_000_000_000
_PYTHON_NEEDED = (3, 11)
_GO_NEEDED = RELEASES[-1].go
_GIGABYTE = 1_000_000_000


def examine(
    version: str = DEFAULT_VERSION, *, kubelet: Path | None = None, start: bool = False, progress: Progress = silent
) -> Iterator[Check]:
    """All checks for a node of this Kubernetes release, each as soon as its result is known.

    `kubelet` is one that the user built, in place of that of the release. With `start` the last check starts such a
    node, and gets missing programs first.
    """
    yield python()
    yield system()
    yield private_namespaces()
    kubernetes, etcd, go = download("Kubernetes"), download("etcd"), go_toolchain()
    yield programs(version, obtainable=kubernetes.ok or go.ok)
    if kubelet is not None:
        yield own_kubelet(kubelet, version)
    yield store_of_api_server(obtainable=etcd.ok or go.ok)
    yield from (kubernetes, etcd, go)
    yield cgroups()
    yield memory()
    yield from disks()
    yield socket_paths()
    if start:
        yield asyncio.run(node_start(version, progress, kubelet))


async def node_start(version: str, progress: Progress = silent, kubelet: Path | None = None) -> Check:
    """Starts a node and a control plane, and stops them."""

    try:
        seconds = await seconds_to_ready(version, progress, kubelet)
    except HarnessError as error:
        return Check("a real start", False, error.message, error.hint)
    return Check("a real start", True, f"the node of Kubernetes {version} was Ready after {seconds:.1f} s")


def python() -> Check:
    """The version of Python."""
    needed = ".".join(map(str, _PYTHON_NEEDED))
    return _check(
        "Python", sys.version_info >= _PYTHON_NEEDED, platform.python_version(), f"use Python {needed} or newer"
    )


def system() -> Check:
    """The operating system and the architecture."""
    try:
        return _check("system", True, str(this_platform()))
    except HarnessError as error:
        return _check("system", False, error.message, error.hint)


def private_namespaces() -> Check:
    """Whether the kernel allows private namespaces for the processes and mounts of the node."""
    name, refusals = "namespaces", []
    try:
        for options in namespaces.ways():
            if not (refusal := namespaces.refusal(options)):
                kind = "user, mount and process" if options is namespaces.WITH_USER else "mount and process, as root"
                return _check(name, True, f"{kind} namespaces are allowed")
            refusals.append(refusal)
    except HarnessError as error:
        return _check(name, False, error.message, error.hint)
    return _check(name, False, "; ".join(refusals), namespaces.allow_hint())


def programs(version: str, *, obtainable: bool) -> Check:
    """Whether the programs of the release are in the cache, or can be got."""
    try:
        return _in_cache("kubernetes", "Kubernetes", parse_version(version), obtainable)
    except HarnessError as error:
        return _check(f"Kubernetes {version}", False, error.message, error.hint)


def own_kubelet(kubelet: Path, version: str) -> Check:
    """Whether the file is a kubelet of this Kubernetes release."""
    from drahealth.suites.targets.kubelet.ensure import check_release

    try:
        check_release(kubelet, version)
    except HarnessError as error:
        return _check("kubelet", False, error.message, error.hint)
    return _check("kubelet", True, str(kubelet))


def store_of_api_server(*, obtainable: bool) -> Check:
    """Whether etcd is in the cache, or can be got."""
    try:
        return _in_cache("etcd", "etcd", ETCD_VERSION, obtainable)
    except HarnessError as error:
        return _check(f"etcd {ETCD_VERSION}", False, error.message, error.hint)


def _in_cache(project: str, title: str, version: str, obtainable: bool) -> Check:
    """Raises HarnessError for a platform without releases."""
    from drahealth.suites.targets.kubelet.binaries import Store

    name = f"{title} {version}"
    there = next((release for release in Store().installed(project) if release.version == version), None)
    if there is not None:
        return _check(name, True, f"{there.folder}, {' and '.join(there.origins)}")
    found = "not in the cache; downloaded or built when needed" if obtainable else "not in the cache, and cannot be got"
    return _check(name, obtainable, found, f"the check `download of {title}` or `Go` must be ok")


def download(title: Literal["Kubernetes", "etcd"]) -> Check:
    """Whether the official releases can be downloaded."""
    from drahealth.suites.targets.kubelet.sources import ETCD_URL, KUBERNETES_URL, reachable

    url = ETCD_URL if title == "etcd" else KUBERNETES_URL
    ok = reachable(url)
    found = f"{url} can{'' if ok else 'not'} be reached"
    return _check(f"download of {title}", ok, found, "without it, releases are built with Go", needed=False)


def go_toolchain() -> Check:
    """Whether releases can be built if they cannot be downloaded."""
    from drahealth.suites.targets.kubelet.sources import toolchain

    hint = f"needed only to build releases that cannot be downloaded: Go {_GO_NEEDED} or newer from https://go.dev/dl"
    go = shutil.which("go")
    if go is None:
        return _check("Go", False, "none", hint, needed=False)
    done = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False)
    found = done.stdout.strip()
    ok = done.returncode == 0 and toolchain(found, _GO_NEEDED) is not None
    return _check("Go", ok, f"{found or 'broken'} ({go})", hint, needed=False)


def cgroups(root: Path = Path("/sys/fs/cgroup")) -> Check:
    """The version of the control groups, which a kubelet needs."""
    hint = "mount /sys/fs/cgroup"
    if (root / "cgroup.controllers").exists():
        return _check("control groups", True, "version 2")
    if (root / "memory").is_dir():
        return _check("control groups", True, "version 1")
    return _check("control groups", False, f"none at {root}", hint)


def memory() -> Check:
    """Memory for one API server, etcd, kubelet, scheduler and controller manager."""
    import psutil

    free = psutil.virtual_memory().available
    return _check(
        "free memory", free >= MEMORY_NEEDED, _size(free), f"{_size(MEMORY_NEEDED)} are needed: stop other programs"
    )


def disks() -> Iterator[Check]:
    """Free disk space for the programs and for the folder of a run."""
    from drahealth.suites.targets.run_directory import default_base, default_root

    for name, folder, setting in (("cache", default_root(), "DRAHEALTH_CACHE"), ("run", default_base(), "TMPDIR")):
        free = shutil.disk_usage(_nearest(folder)).free
        hint = f"{_size(DISK_NEEDED)} are needed: free some disk space, or set {setting} to another folder"
        yield _check(f"disk for the {name} folder", free >= DISK_NEEDED, f"{_size(free)} free at {folder}", hint)


def socket_paths() -> Check:
    """Whether paths of driver sockets in the folder of a run are short enough."""
    from drahealth.suites.targets.run_directory import LONGEST_BASE, default_base

    base = default_base()
    ok = len(os.fsencode(base)) <= LONGEST_BASE and os.access(base, os.W_OK)
    return _check(
        "run folder", ok, f"run folders are in {base}", "make /tmp writable, or set TMPDIR to a short writable folder"
    )


def _nearest(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())


def _size(number: int) -> str:
    return f"{number / _GIGABYTE:.1f} GB"


def _check(name: str, ok: bool, found: str, hint: str = "", needed: bool = True) -> Check:
    return Check(name, ok, found, "" if ok else hint, needed)
