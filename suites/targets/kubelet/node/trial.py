"""One start of a local cluster, to check that it works on this machine."""

import time
from dataclasses import replace
from pathlib import Path

from drahealth.fakes.cluster.containers.cri import CriServer
from drahealth.fakes.cluster.containers.runtime import ContainerRuntime
from drahealth.suites.targets.kubelet.binaries import ensure as binaries
from drahealth.suites.targets.kubelet.node.cluster import LocalCluster
from drahealth.suites.targets.progress import Progress, silent
from drahealth.suites.targets.run_directory import RunDirectory


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
