"""The program in this process, with what it tells kept, and its manifests to write."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from drahealth.fakes.cluster.api import PODS, Object
from drahealth.fakes.control.fake_options import DriverOptions
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.proto.events import Event, ManagerStarted, ManifestRejected
from drahealth.suites.manager_command.output import Observers
from drahealth.suites.manager_command.program import Options, Program, make_server
from drahealth.suites.targets.api_servers import ApiServerProcess
from drahealth.suites.unit.endings import PATIENCE as PATIENCE
from drahealth.suites.unit.manager.rig import until

DRIVER = "gpu.example.com"

CLAIM = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: gpu}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
status: {allocation: {devices: {results: [{request: gpu, driver: gpu.example.com, pool: node-a, device: gpu-0}]}}}
"""

SCHEDULED = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one-gpu}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}}
"""

DIRECT, TEMPLATE = "resourceClaimName: gpu", "resourceClaimTemplateName: one-gpu"


def pod(name: str = "job", image: str = "one", claim: str = "") -> str:
    """A pod's manifest; `claim` says which claim it uses."""
    uses = "    resources: {claims: [{name: gpu}]}\n" if claim else ""
    claims = f"  resourceClaims: [{{name: gpu, {claim}}}]\n" if claim else ""
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  containers:
  - name: main
    image: {image}
{uses}{claims}"""


def health(status: Object) -> list[tuple[str, str, str]]:
    """The devices that a status shows: id, health and message."""
    return [
        (shown["resourceID"], shown["health"], shown.get("message", ""))
        for container in status.get("containerStatuses") or ()
        for entry in container.get("allocatedResourcesStatus") or ()
        for shown in entry["resources"]
    ]


def status_in(folder: Path, name: str = "job", namespace: str = "default") -> Object:
    """What a pod's status file says, with the pod's uid; nothing while there is none."""
    path = folder / f"{namespace}.{name}.status.yaml"
    if not path.exists():
        return {}
    found: Object = YAML(typ="safe", pure=True).load(path.read_text())
    return {**found["status"], "uid": found["metadata"]["uid"]}


class Rig:
    """One root directory, on which one program after the other may live."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="dra-")
        self.root = Path(self._folder.name)
        self.pods = self.root / "pods"
        self.pods.mkdir()
        self.events: list[Event] = []
        self.driver_events: list[Event] = []
        self.program: Program | None = None
        self.make_server: Callable[[Options], ApiServerProcess] = make_server
        self._told = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._closing: list[Callable[[], Awaitable[Any]]] = []

    def options(self, **options: Any) -> Options:
        given = {"pods": None, "profile": "kep", "node_name": "node-a", "resync": 60.0, "feature_gates": None}
        return Options.make(root_dir=self.root, **{**given, "metrics_port": None, "json": True, **options})

    async def start(self, **options: Any) -> Program:
        """Returns once it serves; raises what keeps it from it."""
        return await self.run(self.options(**options))

    async def run(self, options: Options) -> Program:
        """The same, of options that were checked before."""
        self.events.clear()
        observers = Observers()
        observers.add(self.events.append)
        self.program, self._told = Program(options, observers, self.make_server(options)), asyncio.Event()
        running = self._running = asyncio.create_task(self.program.run(self._told))
        await until(lambda: running.done() or any(isinstance(event, ManagerStarted) for event in self.events), PATIENCE)
        if running.done():
            self._running = None
            running.result()
        return self.program

    async def stop(self) -> None:
        """In order."""
        running, self._running = self._running, None
        if running:
            self._told.set()
            async with asyncio.timeout(PATIENCE):
                await running

    async def close(self) -> None:
        for close in reversed(self._closing):
            await close()
        await self.stop()
        self._folder.cleanup()

    def write(self, name: str, *documents: str) -> None:
        """As an editor does: at once, as another file of the same name."""
        draft = self.pods / f".{name}"
        draft.write_text("---".join(documents))
        draft.rename(self.pods / name)

    def driver_options(self, *devices: str) -> DriverOptions:
        """A driver of this node that sends no reports by itself."""
        registry, data = str(self.root / "plugins_registry"), str(self.root / "data")
        return DriverOptions(DRIVER, "node-a", devices, registry, data, heartbeat=0.0)

    async def driver(self, *devices: str) -> FakeDriver:
        """A driver that has registered, with these devices."""
        assert self.program
        driver = FakeDriver(
            self.driver_options(*devices or ("gpu-0",)), self.program.node.api, observe=self.driver_events.append
        )
        self._closing.append(driver.stop)
        await driver.start()
        async with asyncio.timeout(PATIENCE):
            await driver.wait_registered()
        return driver

    async def objects(self) -> dict[str, Object]:
        """The pods that there are, by name."""
        assert self.program
        return {found["metadata"]["name"]: found for found in await self.program.node.api.list(PODS)}

    def status(self, name: str = "job") -> Object:
        return status_in(self.pods, name)

    async def shows(self, *devices: tuple[str, str, str], name: str = "job") -> Object:
        """Once the pod's status file does."""
        await until(lambda: health(self.status(name)) == list(devices), PATIENCE)
        return self.status(name)

    async def runs(self, name: str = "job", image: str = "one") -> Object:
        """Once the pod's status file says so."""
        await until(lambda: (self.status(name).get("phase"), _image(self.status(name))) == ("Running", image), PATIENCE)
        return self.status(name)

    def status_in(self, namespace: str) -> Object:
        return status_in(self.pods, namespace=namespace)

    async def runs_in(self, namespace: str) -> Object:
        """Once the status file of the pod in this namespace says so."""
        await until(lambda: self.status_in(namespace).get("phase") == "Running", PATIENCE)
        return self.status_in(namespace)

    async def is_gone(self, name: str = "job") -> None:
        await until(lambda: not self.status(name), PATIENCE)

    @property
    def refused(self) -> list[tuple[str, int, str]]:
        found = [event for event in self.events if isinstance(event, ManifestRejected)]
        return [(event.file, event.line, event.problem) for event in found]

    async def refuses(self, *problems: tuple[str, int, str]) -> None:
        """Once it has told of just these."""
        await until(lambda: self.refused, PATIENCE)
        assert self.refused == list(problems)


def _image(status: Object) -> str:
    return next((str(container["image"]) for container in status.get("containerStatuses") or ()), "")
