"""What `drahealth up` can run: a real node, another node that joins it, or the reference in place of its kubelet."""

import asyncio
import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from drahealth.fakes.program.private_files import replace_file
from drahealth.fakes.waiting import run_until_first
from drahealth.suites.up_command.node_folder import Components, NodeFolder, NodePaths, NodeState, gates_text

if TYPE_CHECKING:
    from drahealth.suites.targets.kubelet.cluster import JoinedNode, LocalCluster

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

    `joining` are the names of the other nodes. `for_fleet`: the control plane is also that of a fleet.
    """

    def __init__(
        self,
        components: Components,
        folder: NodeFolder,
        lock: int,
        port: int,
        joining: Sequence[str],
        *,
        for_fleet: bool,
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
            for_fleet=for_fleet,
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
    return RealNode(components, folder, lock, port, joining, for_fleet=bool(state.fleet))
