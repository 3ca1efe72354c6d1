"""`drahealth manager --api-server real` (`ci/step api-server` runs this)."""

import asyncio
import json
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial
from pathlib import Path

import pytest
from watchfiles import awatch

from drahealth.fakes.cluster.api import PODS, SLICES, Kind, Object
from drahealth.fakes.cluster.kube_client import KubeClient
from drahealth.fakes.control.fake_options import DriverOptions
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.proto.values import Health
from drahealth.suites.targets.api_servers import port_in
from drahealth.suites.targets.kubelet.processes import Reservation
from drahealth.suites.unit.endings import PATIENCE

DRIVER = "gpu.example.com"
MANIFESTS = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: gpu}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: job}
spec:
  containers:
  - {name: main, image: training, resources: {claims: [{name: gpu}]}}
  resourceClaims: [{name: gpu, resourceClaimName: gpu}]
"""


class Manager:
    """The command with its root directory; `start` returns when its kubeconfig is written."""

    def __init__(self, root: Path) -> None:
        self.root = root

    async def start(self) -> None:
        drahealth, pipe = Path(sys.executable).with_name("drahealth"), asyncio.subprocess.PIPE
        options = f"--root-dir {self.root} --node-name node-a --api-server real --json".split()
        self.process = await asyncio.create_subprocess_exec(drahealth, "manager", *options, stdout=pipe)
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            if b'"event": "started"' in line:
                break
        self.api = await KubeClient.from_kubeconfig(self.root / "kubeconfig")

    async def stop(self) -> None:
        await self.api.close()
        if self.process.returncode is None:
            self.process.terminate()
        await self.process.communicate()


@pytest.fixture
async def manager() -> AsyncIterator[Manager]:
    with tempfile.TemporaryDirectory(prefix="dra-") as root:
        manager = Manager(Path(root))
        await manager.start()
        yield manager
        await manager.stop()


async def seen(api: KubeClient, kind: Kind, wanted: object) -> Object:
    """The first object whose health (for a pod) or driver (for a slice) is the wanted one."""
    async with asyncio.timeout(PATIENCE), aclosing(api.watch(kind)) as events:
        async for event in events:
            if wanted == (event.object["spec"]["driver"] if kind == SLICES else health(event.object)):
                return event.object
    raise AssertionError("the watch has ended")


async def written(file: Path, text: str) -> None:
    """Waits until a file has the text."""
    async with asyncio.timeout(3 * PATIENCE):
        async for _ in awatch(file.parent, rust_timeout=200, yield_on_timeout=True):
            if has(file, text):
                return


def has(file: Path, text: str) -> bool:
    return file.exists() and text in file.read_text()


def health(pod: Object) -> object:
    statuses = pod["status"].get("containerStatuses") or [{}]
    entries = statuses[0].get("allocatedResourcesStatus") or ()
    return {entry["name"]: [device["health"] for device in entry["resources"]] for entry in entries}


async def test_a_pod_from_a_manifest_keeps_its_uid_and_shows_health_on_a_real_api_server(manager: Manager) -> None:
    registry, data = str(manager.root / "plugins_registry"), str(manager.root / "plugins" / DRIVER)
    api = await KubeClient.from_kubeconfig(manager.root / "kubeconfig")  # the next manager has its port and token
    driver = FakeDriver(DriverOptions(DRIVER, "node-a", ("gpu-0",), registry, data), api)
    await driver.start()
    await seen(manager.api, SLICES, DRIVER)
    (manager.root / "pods" / "job.yaml").write_text(MANIFESTS)
    before = await seen(manager.api, PODS, {"claim:gpu": ["Healthy"]})

    manager.process.kill()
    await manager.stop()
    reserved = Reservation(port_in(manager.root / "kubeconfig"))  # no other process gets it meanwhile
    await manager.start()
    reserved.release()
    await driver.set_health("gpu-0", Health.UNHEALTHY)
    after = await seen(manager.api, PODS, {"claim:gpu": ["Unhealthy"]})
    await written(manager.root / "pods" / "default.job.status.yaml", "health: Unhealthy")
    await driver.stop()
    await api.close()
    await manager.stop()
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


@pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not on the PATH")
async def test_kubectl_creates_changes_selects_describes_and_deletes(manager: Manager, tmp_path: Path) -> None:
    spec = {"containers": [{"name": "main", "image": "training"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "job"}, "spec": spec}
    (tmp_path / "pod.json").write_text(json.dumps(pod))
    kubectl = partial(run, manager.root / "kubeconfig")
    await kubectl("create namespace team")
    await kubectl(f"apply -n team -f {tmp_path / 'pod.json'}")
    await kubectl("wait -n team pod/job --for=condition=Ready --timeout=240s")
    await kubectl("label -n team pod/job app=job")
    await kubectl("annotate -n team pod/job note=kept")
    await kubectl(f"apply -n team -f {tmp_path / 'pod.json'}")
    assert await kubectl("get pods -A -l app=job -o jsonpath={.items[*].metadata.annotations.note}") == "kept"
    assert "team" in await kubectl("describe node node-a")
    assert "Ready" in await kubectl("get nodes --no-headers")
    await kubectl("delete namespace team --timeout=240s")


async def run(kubeconfig: Path, arguments: str) -> str:
    """What kubectl prints; it must succeed."""
    command, pipe = ["kubectl", "--kubeconfig", str(kubeconfig), *arguments.split()], asyncio.subprocess.PIPE
    kubectl = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=asyncio.subprocess.STDOUT)
    output, _ = await kubectl.communicate()
    assert kubectl.returncode == 0, output.decode()
    return output.decode()
