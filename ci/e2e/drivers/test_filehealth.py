"""The driver filehealth on a node: with the reference and its API server in memory, and with a real kubelet."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from drahealth.fakes import SLICES
from drahealth.suites import LocalNode, Pod, ReferenceNode

DRIVER = "filehealth.example.com"
Node = ReferenceNode | LocalNode
CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu"},
    "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]},
}
CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "gpu", "namespace": "default"},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}},
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "job", "namespace": "default"},
    "spec": {
        "containers": [{"name": "main", "image": "training", "resources": {"claims": [{"name": "gpu"}]}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}],
    },
}


@asynccontextmanager
async def started(node: Node, folder: Path) -> AsyncIterator[Process]:
    """The driver's process; killed at the end if it still runs."""
    places = {
        "--driver-name": DRIVER,
        "--node-name": node.name,
        "--kubeconfig": await node.kubeconfig(),
        "--plugin-dir": Path(node.plugins_dir) / DRIVER,
        "--registrar-dir": node.registry_dir,
        "--cdi-dir": folder / "cdi",
        "--health-file": folder / "health",
    }
    options = [str(word) for pair in places.items() for word in pair]
    process = await asyncio.create_subprocess_exec(os.environ["FILEHEALTH"], *options)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def run_pod(node: Node) -> Pod:
    """A running Pod with one device, which the scheduler chose from the driver's ResourceSlices."""
    async for change in node.api.watch(SLICES):
        if change.object.get("spec", {}).get("driver") == DRIVER:
            break
    await node.create(CLASS)
    await node.create(CLAIM)
    return await node.run_pod(POD)


@pytest.fixture(params=[ReferenceNode, LocalNode])
async def node(request: pytest.FixtureRequest) -> AsyncIterator[Node]:
    async with request.param() as node:
        yield node


def sockets(node: Node) -> list[Path]:
    """The files in the registration directory and in the driver's directory."""
    return [*Path(node.registry_dir).iterdir(), *Path(node.plugins_dir, DRIVER).iterdir()]


async def shows(pod: Pod, health: str, message: str = "") -> None:
    """Waits until the status has one device, with this health."""
    await pod.wait_until(
        lambda _: [(device.health, device.message) for device in pod.devices()] == [(health, message)],
        f"shows {health} {message!r}",
    )


async def test_file_sets_the_health_that_a_pod_shows(node: Node, tmp_path: Path) -> None:
    async with started(node, tmp_path):
        pod = await run_pod(node)
        await shows(pod, "Healthy")
        (tmp_path / "health").write_text("gpu-0 Unhealthy XID 79\n")
        await shows(pod, "Unhealthy", "XID 79")
        (tmp_path / "health").unlink()
        await shows(pod, "Healthy")


async def test_restarted_driver_unprepares_the_claim_of_a_pod(node: Node, tmp_path: Path) -> None:
    async with started(node, tmp_path):
        pod = await run_pod(node)
        (spec,) = (tmp_path / "cdi").iterdir()
    async with started(node, tmp_path):
        await pod.delete()
    assert not spec.exists()


async def test_running_driver_conforms(node: Node, tmp_path: Path) -> None:
    drahealth = Path(sys.executable).with_name("drahealth")
    options = ["--registry-dir", str(node.registry_dir), "--kubeconfig", str(await node.kubeconfig())]
    async with started(node, tmp_path):
        process = await asyncio.create_subprocess_exec(drahealth, "check", *options, "--cdi-dir", tmp_path / "cdi")
        assert await process.wait() == 0


async def test_driver_ends_at_sigterm_and_removes_its_sockets(node: Node, tmp_path: Path) -> None:
    async with started(node, tmp_path) as process:
        await run_pod(node)
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
    assert sockets(node) == []
