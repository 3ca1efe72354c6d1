"""What `drahealth up` can run: a real node or the reference, with its fake drivers."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import drahealth.fakes.cluster.kube_connection  # noqa: F401 -- heavy: the API server starts meanwhile
from drahealth.fakes.cluster.api import DEVICE_CLASSES, ApiError
from drahealth.fakes.cluster.kube_client import KubeClient
from drahealth.fakes.control.news import News
from drahealth.fakes.program.json_lines import LineWriter
from drahealth.fakes.program.private_files import replace_file
from drahealth.fakes.serve.program import Program, settings_of
from drahealth.fakes.serve.settings import Settings
from drahealth.fakes.waiting import run_until_first
from drahealth.proto.clock import SystemClock
from drahealth.proto.events import DriverEvent, DriverServed, to_json
from drahealth.suites.story.manifests import device_class
from drahealth.suites.up_command.node_folder import Components, NodeFolder, NodePaths, NodeState, gates_text

if TYPE_CHECKING:
    from drahealth.suites.targets.kubelet.cluster import JoinedNode, LocalCluster

# The fake drivers and device plugins of a node: the program of `drahealth driver serve`, in this process.


def drivers_settings(folder: NodeFolder, paths: NodePaths, inventory: Path, timeline: Path | None) -> Settings:
    """The settings of the program, from an inventory and perhaps a timeline. Raises CommandError for errors there."""
    given = {
        "registry_dir": paths.registry_dir,
        "plugins_dir": paths.plugins_dir,
        "device_plugins_dir": paths.device_plugins_dir,
        "kubelet_dir": paths.kubelet_root,
        "node_name": folder.name,
        "play": timeline,
    }
    return settings_of(inventory, socket=folder.socket, kubeconfig=paths.kubeconfig, given=given)


class ServedDrivers:
    """The drivers and device plugins of a running program."""

    def __init__(self, program: Program, ready: asyncio.Event, task: "asyncio.Task[None]") -> None:
        self._program = program
        self._ready = ready
        self._task = task

    async def wait(self) -> None:
        """Waits until the program fails. Raises CommandError."""
        await asyncio.shield(self._task)

    async def until_registered(self) -> None:
        """Returns when the kubelet has registered all of them."""
        await self._ready.wait()
        for driver in self._program.drivers:
            await driver.wait_registered()
        for plugin in self._program.plugins:
            await plugin.wait_registered()


@asynccontextmanager
async def served(settings: Settings, log: Path) -> AsyncIterator[ServedDrivers]:
    """Serves them until the end of the block. Also makes a DeviceClass for each driver."""
    client = await KubeClient.from_kubeconfig(str(settings.kubeconfig))
    try:
        news, ready, stop = News(), asyncio.Event(), asyncio.Event()
        program = Program(settings, client, news, client.selecting(f"spec.nodeName={settings.node}"))

        def hear(event: DriverEvent) -> None:
            if isinstance(event, DriverServed):
                ready.set()

        with log.open("a", encoding="utf-8") as output, closing(LineWriter(output, SystemClock())) as lines:
            news.add(hear)
            news.add(lambda event: lines.write(to_json(event)))
            for driver in settings.drivers:
                await _make_class(client, driver.name)
            task = asyncio.create_task(program.run(stop))
            try:
                yield ServedDrivers(program, ready, task)
            finally:
                stop.set()
                await asyncio.wait([task])
    finally:
        await client.close()


async def _make_class(client: KubeClient, driver: str) -> None:
    try:
        await client.create(DEVICE_CLASSES, device_class(driver))
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise


# What `drahealth up` can run: a real node, or the reference in place of its kubelet.

SYNC_FREQUENCY = 10.0
"""Seconds between two syncs of a Pod by the kubelet, or by the reference."""
_CONTAINERS = "containers"


class UpNode(Protocol):
    """A node with its control plane, in the folder of the node."""

    server: str
    """URL of the API server; set by `start`."""
    paths: NodePaths

    async def start(self) -> None:
        """Starts the control plane, without waiting. Raises HarnessError."""

    async def until_registered(self) -> None:
        """Starts the kubelet, and returns when its Node object exists. Raises HarnessError."""

    async def until_ready(self) -> None:
        """Returns when the node is Ready and the kubeconfig for users is written. Raises HarnessError."""

    async def wait(self) -> None:
        """Waits until a part fails. Raises HarnessError."""

    async def stop(self) -> None:
        """Ends all of it; its data stay."""


class RealNode:
    """Implements `UpNode` with a real kubelet and control plane, and a fake container runtime.

    `joining` are the names of the other nodes.
    """

    def __init__(
        self, components: Components, folder: NodeFolder, lock: int, port: int, joining: Sequence[str]
    ) -> None:
        from drahealth.suites.targets.kubelet.cluster import LocalCluster
        from drahealth.suites.targets.run_directory import RunDirectory

        self._folder = folder
        self._cluster = LocalCluster(
            components.binaries,
            run_dir=RunDirectory(folder.path, lock),
            cri_socket=_runtime_socket(folder),
            sync_frequency=SYNC_FREQUENCY,
            node_name=folder.name,
            joining=joining,
            gates=components.gates,
            keep=True,
            api_port=port,
        )
        self._closing = AsyncExitStack()
        self.server = ""
        self.paths = NodePaths.of(folder.path, reference=False)

    async def start(self) -> None:
        async with AsyncExitStack() as stack:
            await self._cluster.launch(lambda: _start_runtime(stack, self._folder))
            stack.push_async_callback(self._cluster.stop)
            self._closing = stack.pop_all()

    async def until_registered(self) -> None:
        await self._cluster.until_registered()

    async def until_ready(self) -> None:
        await self._cluster.until_ready()
        self.server = self._cluster.server
        _write_kubeconfig(self._cluster, self._folder)

    async def wait(self) -> None:
        await self._cluster.wait()

    async def stop(self) -> None:
        await self._closing.aclose()

    def join(self, folder: NodeFolder, lock: int) -> "JoiningNode":
        """Another node of this control plane, not started. The API server must answer."""
        return JoiningNode(self._cluster, folder, lock)


class JoiningNode:
    """Implements `UpNode` with a real kubelet that joins the control plane of a `RealNode`."""

    def __init__(self, cluster: "LocalCluster", folder: NodeFolder, lock: int) -> None:
        from drahealth.suites.targets.run_directory import RunDirectory

        self._cluster = cluster
        self._folder = folder
        run_dir = RunDirectory(folder.path, lock)
        self._node: JoinedNode = cluster.join(folder.name, run_dir, _runtime_socket(folder))
        self._closing = AsyncExitStack()
        self.server = cluster.server
        self.paths = NodePaths.of(folder.path, reference=False)

    async def start(self) -> None:
        async with AsyncExitStack() as stack:
            await _start_runtime(stack, self._folder)
            stack.push_async_callback(self._node.stop)
            await self._node.start()
            self._closing = stack.pop_all()

    async def until_registered(self) -> None:
        await self._node.until_registered()

    async def until_ready(self) -> None:
        await self._node.until_ready()
        _write_kubeconfig(self._cluster, self._folder)

    async def wait(self) -> None:
        await self._node.wait()

    async def stop(self) -> None:
        await self._closing.aclose()


def _runtime_socket(folder: NodeFolder) -> Path:
    return folder.path / "cri.sock"


async def _start_runtime(stack: AsyncExitStack, folder: NodeFolder) -> None:
    """Starts the fake container runtime of a node. The stack stops it."""
    # The slow imports are here because the control plane starts meanwhile.
    from drahealth.fakes.cluster.cri import CriServer
    from drahealth.fakes.cluster.runtime import ContainerRuntime

    logs = folder.path / _CONTAINERS
    shutil.rmtree(logs, ignore_errors=True)  # of containers that have ended with an earlier start
    runtime = ContainerRuntime()
    stack.push_async_callback(runtime.close)
    cri = CriServer(runtime, _runtime_socket(folder), logs)
    await cri.start()
    stack.push_async_callback(cri.stop)


def _write_kubeconfig(cluster: "LocalCluster", folder: NodeFolder) -> None:
    """That for users."""
    from drahealth.suites.targets.kubelet.layout import certificate_kubeconfig

    config = certificate_kubeconfig(cluster.layout, cluster.server, folder.name)
    replace_file(folder.kubeconfig, json.dumps(config, indent=1).encode() + b"\n")


class ReferenceNode:
    """Implements `UpNode` with the program of `drahealth manager`."""

    def __init__(self, folder: NodeFolder, gates: Mapping[str, bool]) -> None:
        from drahealth.suites.manager_command.program import Options

        self.paths = NodePaths.of(folder.path, reference=True)
        self._folder = folder
        self._options = Options.make(
            root_dir=self.paths.kubelet_root,
            pods=None,
            profile=None,
            node_name=folder.name,
            resync=SYNC_FREQUENCY,
            feature_gates=gates_text(gates),
            metrics_port=None,
            json=True,
        )
        self._task: asyncio.Task[None] | None = None
        self._started = asyncio.Event()
        self._stop = asyncio.Event()
        self.server = ""

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def until_registered(self) -> None:
        await run_until_first(self._started.wait(), self.wait())

    async def until_ready(self) -> None:
        text = self.paths.kubeconfig.read_bytes()
        self.server = json.loads(text)["clusters"][0]["cluster"]["server"]
        replace_file(self._folder.kubeconfig, text)

    async def wait(self) -> None:
        assert self._task, "the node is not started"
        await asyncio.shield(self._task)

    async def stop(self) -> None:
        self._stop.set()
        if self._task:
            with suppress(Exception):  # `wait` has raised it
                await self._task

    async def _run(self) -> None:
        from drahealth.proto.clock import SystemClock
        from drahealth.proto.events import Event, ManagerStarted
        from drahealth.suites.manager_command.output import JsonLines, Observers
        from drahealth.suites.manager_command.program import Program, make_server

        def observe(event: Event, /) -> None:
            if isinstance(event, ManagerStarted):
                self._started.set()

        with (self._folder.logs / "manager.log").open("a", encoding="utf-8") as log:
            observers = Observers()
            with closing(JsonLines(log, SystemClock())) as lines:
                observers.add(lines)
                observers.add(observe)
                await Program(self._options, observers, make_server(self._options)).run(self._stop)


def make_node(
    state: NodeState, components: Components | None, folder: NodeFolder, lock: int, port: int, joining: Sequence[str]
) -> RealNode | ReferenceNode:
    """The node of this state, not started. Raises ConfigurationError."""
    if components is None:
        return ReferenceNode(folder, state.gates)
    return RealNode(components, folder, lock, port, joining)
