"""A control plane and a node on this machine: the real programs with a fake container runtime."""

import asyncio
import contextlib
import json
import signal
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from drahealth.suites.errors import HarnessError
from drahealth.suites.processes.sandbox import RunningSandbox, sandbox, ways
from drahealth.suites.targets.audit import AuditLog
from drahealth.suites.targets.kubelet import processes as logs
from drahealth.suites.targets.kubelet.binaries import Binaries
from drahealth.suites.targets.kubelet.control_plane import (
    FLEET_API_SERVER_FLAGS,
    FLEET_VARIABLES,
    ComponentGates,
    ControlPlane,
    certificate_flags,
    clients_with,
    environment,
    fleet_clients,
)
from drahealth.suites.targets.kubelet.layout import (
    ADMIN,
    KUBELET,
    SCHEDULER,
    Layout,
    write_credentials,
    write_joining_credentials,
)
from drahealth.suites.targets.kubelet.processes import ApiProbe, Process, Reservation, check, outward_address, until
from drahealth.suites.targets.node_readiness import NodeReadiness
from drahealth.suites.targets.run_directory import RunDirectory

# The kubelet of one run: its process and its configuration.


class Kubelet:
    """One kubelet that can be stopped and started with the same folders."""

    def __init__(
        self, sandbox: RunningSandbox, binaries: Binaries, layout: Layout, node_name: str, address: str | None
    ) -> None:
        self.process: Process | None = None
        self._sandbox = sandbox
        self._binaries = binaries
        self._layout = layout
        self._node_name = node_name
        self._address = address

    async def start(self, configuration: Mapping[str, Any]) -> None:
        """Starts it with this configuration, without waiting until it is ready."""
        path = self._layout.root / "kubelet.json"
        path.write_text(json.dumps(configuration, indent=1), encoding="utf-8")
        flags = [
            f"--config={path}",
            f"--kubeconfig={self._layout.kubeconfig(KUBELET)}",
            f"--root-dir={self._layout.kubelet_root}",
            f"--cert-dir={self._layout.pki_dir}",
            f"--hostname-override={self._node_name}",
            *([f"--node-ip={self._address}"] if self._address else []),
        ]
        argv, env = [str(self._binaries.kubelet), *flags], environment(self._layout)
        log = self._layout.log(KUBELET)
        self.process = await Process.start(self._sandbox, KUBELET, argv, env, self._layout.root, log)

    async def stop(self, hard: bool) -> None:
        """Stops it: SIGKILL if `hard`, else SIGTERM. Harmless if it is stopped."""
        if self.process is not None:
            await self.process.end(signal.SIGKILL if hard else signal.SIGTERM)
        self.process = None


def kubelet_configuration(
    layout: Layout, *, runtime: str, port: int, sync_frequency: float, gates: Mapping[str, bool]
) -> dict[str, Any]:
    """A KubeletConfiguration with which the kubelet changes nothing on the machine."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "127.0.0.1",
        "port": port,
        "tlsCertFile": str(layout.kubelet_certificate[0]),
        "tlsPrivateKeyFile": str(layout.kubelet_certificate[1]),
        "readOnlyPort": 0,
        "healthzPort": 0,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": str(layout.client_authority)},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": f"unix://{runtime}",
        "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        "localStorageCapacityIsolation": False,
        "makeIPTablesUtilChains": False,
        "evictionHard": {},
        "podLogsDir": str(layout.pod_logs_dir),
        "staticPodPath": str(layout.static_pods_dir),
        "fileCheckFrequency": "1s",  # also without inotify, whose instances may be used up
        "volumePluginDir": str(layout.root / "volume-plugins"),
        "nodeStatusUpdateFrequency": "1s",  # so that what a device plugin brings can be used soon
        "syncFrequency": f"{round(sync_frequency * 1000)}ms",
        "featureGates": {"KubeletInUserNamespace": True, **gates},
    }


# The parts of one running cluster.


@dataclass(frozen=True, slots=True)
class Parts:
    """The processes, a connection to the API server at the URL `server`, and the ports."""

    probe: ApiProbe
    control_plane: ControlPlane
    kubelet: Kubelet
    readiness: NodeReadiness
    server: str
    again: bool
    """Whether the data of an earlier start are there."""
    kubelet_port: int
    closing: contextlib.AsyncExitStack

    @classmethod
    async def make(
        cls,
        binaries: Binaries,
        run_dir: RunDirectory,
        layout: Layout,
        node_name: str,
        *,
        joining: Sequence[str],
        gates: ComponentGates,
        keep: bool,
        api_port: int,
        for_fleet: bool,
    ) -> "Parts":
        """Starts only the sandbox; with `keep` the folder stays when this process is killed.

        For a fleet, clients do not limit their requests, and the writes of Pod statuses are not logged. The API
        server gets `api_port` if it is free. Raises HarnessError if this machine does not allow it.
        """
        again = layout.etcd_dir.exists()
        async with contextlib.AsyncExitStack() as stack:
            api, kubelet_port = Reservation(api_port), Reservation()
            stack.callback(api.release)
            stack.callback(kubelet_port.release)
            server = f"https://127.0.0.1:{api.port}"
            token = write_credentials(layout, server, node_name, joining)
            programs = {binaries.kubelet.parent, binaries.kube_apiserver.parent, binaries.etcd.parent}
            programs |= {binaries.kube_scheduler.parent, binaries.kube_controller_manager.parent}
            if not keep:
                run_dir.remove_if_killed()
            plan = layout.mount_plan(sorted(programs))
            running = await stack.enter_async_context(sandbox(ways(), plan, held=[run_dir.lock]))
            probe = ApiProbe(server, token)
            stack.push_async_callback(probe.close)
            return cls(
                probe,
                ControlPlane(
                    running,
                    binaries,
                    layout,
                    api.port,
                    clients=fleet_clients(gates) if for_fleet else clients_with(gates),
                    audit=not for_fleet,
                    flags=[*certificate_flags(layout), *(FLEET_API_SERVER_FLAGS if for_fleet else ())],
                    variables=FLEET_VARIABLES if for_fleet else {},
                ),
                Kubelet(running, binaries, layout, node_name, outward_address()),
                NodeReadiness(probe, node_name, again=again),
                server,
                again,
                kubelet_port.port,
                stack.pop_all(),
            )

    def processes(self) -> Sequence[Process]:
        """The processes that should be running."""
        kubelet = [self.kubelet.process] if self.kubelet.process is not None else []
        return [*self.control_plane.processes.values(), *kubelet]

    async def close(self) -> None:
        """Stops all processes and releases connections and ports."""
        await self.closing.aclose()


# A control plane and a node on this machine: the real programs with a fake container runtime, without root.
#
# run = RunDirectory.create() cri = CriServer(ContainerRuntime(), run.path / "cri.sock", run.path / "containers")
# await cri.start() cluster = LocalCluster(binaries, run_dir=run, cri_socket=cri.socket, sync_frequency=1,
# node_name="node") await cluster.start() ... await cluster.stop() await cri.stop()

_NO_GATES = ComponentGates()
START_LIMIT = 180.0
"""Seconds for the API server or the node to become ready. An exit is noticed at once; this limit is for a hang."""


class LocalCluster:
    """One node and its control plane. All its processes end with `stop`, or when this process ends in any way.

    `cri_socket` is the socket of the container runtime, which must listen before the kubelet starts. `sync_frequency`
    is that of the kubelet, in seconds. With `keep` the folder of the run stays after the end, and a kept folder is
    started again. The API server gets `api_port` if that is free. Other nodes can `join`, whose names `joining` lists.
    `for_fleet` is for thousands of hollow nodes: then there is no `audit`.
    """

    def __init__(
        self,
        binaries: Binaries,
        *,
        run_dir: RunDirectory,
        cri_socket: Path,
        sync_frequency: float = 60.0,
        node_name: str = "drahealth",
        joining: Sequence[str] = (),
        gates: ComponentGates = _NO_GATES,
        keep: bool = False,
        api_port: int = 0,
        for_fleet: bool = False,
    ) -> None:
        self.node_name = node_name
        self.layout = Layout(run_dir.path)
        self.audit = AuditLog(self.layout.audit_log)
        """The writes of Pod statuses."""
        self._joining = joining
        self._gates = gates
        self._api_server_is_stopped = False
        self._binaries = binaries
        self._run_dir = run_dir
        self._cri_socket = cri_socket
        self._sync_frequency = sync_frequency
        self._keep = keep
        self._api_port = api_port
        self._for_fleet = for_fleet
        self._parts: Parts | None = None

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of the administrator; it exists after `start`."""
        return self.layout.kubeconfig(ADMIN)

    @property
    def registry_dir(self) -> Path:
        """The folder for registration sockets: plugins_registry of the kubelet."""
        return self.layout.registry_dir

    @property
    def plugins_dir(self) -> Path:
        """The folder for the sockets of DRA drivers: plugins of the kubelet."""
        return self.layout.plugins_dir

    @property
    def device_plugins_dir(self) -> Path:
        """The folder with `kubelet.sock` for device plugins."""
        return self.layout.device_plugins_dir

    async def start(self) -> None:
        """Starts everything and returns when the node is Ready and accepts pods.

        If a component fails, raises HarnessError with the most important line of its log, after it has stopped all.
        """
        await self.launch()
        await self.until_registered()
        await self.until_ready()

    async def launch(self, start_runtime: Callable[[], Awaitable[None]] | None = None) -> None:
        """Starts etcd and the API server, without waiting until it is ready. Raises HarnessError as `start` does.

        `start_runtime` starts the container runtime while the API server starts.
        """
        await self._or_stop(self._launch(start_runtime))

    async def until_registered(self) -> None:
        """Waits for the launched API server and starts its clients; returns when the kubelet has registered its node.

        Clients that start earlier fail first, and wait before they try again. Raises HarnessError as `start` does.
        """
        await self._or_stop(self._until_registered())

    async def until_ready(self) -> None:
        """Returns when the registered node is Ready. Raises HarnessError as `start` does."""
        await self._or_stop(self._until_ready())

    async def stop(self) -> None:
        """Stops everything and removes the folder of the run, unless it is kept; harmless if it is stopped."""
        parts, self._parts = self._parts, None
        try:
            if parts is not None:
                await parts.close()
        finally:
            if not self._keep:  # the owner of a kept folder releases it
                self._run_dir.remove()

    async def stop_kubelet(self, hard: bool = True) -> None:
        """Stops the kubelet: SIGKILL if `hard`, else SIGTERM. Its containers, checkpoints and sockets stay."""
        await self._running().kubelet.stop(hard)

    async def start_kubelet(self) -> None:
        """Starts the kubelet with the same files, unless it runs; returns when its node is Ready."""
        parts = self._running()
        if parts.kubelet.process is None:
            await self._start_kubelet(parts)
        await self._until_node_is_ready(parts)

    async def restart_kubelet(self, hard: bool = True) -> None:
        """Stops and starts the kubelet."""
        await self.stop_kubelet(hard)
        await self.start_kubelet()

    async def set_gates(self, gates: Mapping[str, bool], kubelet: Mapping[str, bool] | None = None) -> None:
        """Restarts the API server and the kubelet with these feature gates and the same data.

        `kubelet` are the gates of the kubelet, if they differ from those of the API server.
        """
        await self.stop_kubelet()
        await self.stop_api_server()
        self._gates = replace(
            self._gates,
            api_server={**self._gates.api_server, **gates},
            kubelet={**self._gates.kubelet, **(gates if kubelet is None else kubelet)},
        )
        await self.start_api_server()
        await self.start_kubelet()

    async def stop_api_server(self) -> None:
        """Kills the API server. Its store, the kubelet and the containers stay."""
        if not self._api_server_is_stopped:
            self._api_server_is_stopped = True
            await self._running().control_plane.stop_api_server()

    async def start_api_server(self) -> None:
        """Starts the API server, unless it runs; returns when it is ready."""
        parts = self._running()
        if self._api_server_is_stopped:
            await parts.control_plane.start_api_server(self._gates.api_server)
            self._api_server_is_stopped = False
            await until(parts.probe.serving, parts.processes(), "the API server to be ready again", START_LIMIT)
            await parts.control_plane.start_client(SCHEDULER)
            await self._start_clients(parts)

    @property
    def server(self) -> str:
        """The URL of the API server."""
        return self._running().server

    async def wait(self) -> None:
        """Waits until a process ends unexpectedly. Raises HarnessError, with the most important line of its log."""
        processes = self._running().processes()
        await asyncio.wait([process.exited for process in processes], return_when=asyncio.FIRST_COMPLETED)
        check(processes)

    def check(self) -> None:
        """Raises HarnessError if a process has ended unexpectedly, with the most important line of its log."""
        check(self._running().processes())

    def join(self, node_name: str, run_dir: RunDirectory, cri_socket: Path) -> "JoinedNode":
        """Another node of this cluster, not started, with a folder and a container runtime of its own."""
        return JoinedNode(self, node_name, run_dir, cri_socket)

    def tail(self, component: str, lines: int = 20) -> str:
        """The end of a component's log: kubelet, kube-apiserver, kube-scheduler, kube-controller-manager or etcd."""
        return logs.tail(self.layout.log(component), lines)

    async def _or_stop(self, part: Coroutine[None, None, None]) -> None:
        try:
            await part
        except BaseException:
            await self.stop()
            raise

    async def _launch(self, start_runtime: Callable[[], Awaitable[None]] | None) -> None:
        self.layout.make(node_names=[self.node_name, *self._joining])
        parts = self._parts = await Parts.make(
            self._binaries,
            self._run_dir,
            self.layout,
            self.node_name,
            joining=self._joining,
            gates=self._gates,
            keep=self._keep,
            api_port=self._api_port,
            for_fleet=self._for_fleet,
        )
        await parts.control_plane.start(self._gates.api_server)
        if start_runtime:
            await start_runtime()

    async def _until_registered(self) -> None:
        parts = self._running()
        await until(parts.probe.serving, parts.processes(), "the API server to answer", START_LIMIT)
        await self._start_kubelet(parts)
        await parts.control_plane.start_client(SCHEDULER)

        async def registered() -> bool:
            return await parts.probe.node(self.node_name) is not None

        await until(registered, parts.processes(), f"the node {self.node_name} to be registered", START_LIMIT)

    async def _until_ready(self) -> None:
        parts = self._running()
        await self._start_clients(parts)
        await self._until_node_is_ready(parts)

    async def _start_clients(self, parts: Parts) -> None:
        """Starts all clients. A controller manager ends if the API server is not ready within ten seconds."""
        await until(parts.probe.ready, parts.processes(), "the API server to be ready", START_LIMIT)
        await parts.control_plane.start_clients()

    async def _start_kubelet(self, parts: Parts) -> None:
        parts.readiness.begin()
        await parts.kubelet.start(
            kubelet_configuration(
                self.layout,
                runtime=str(self._cri_socket),
                port=parts.kubelet_port,
                sync_frequency=self._sync_frequency,
                gates=self._gates.kubelet,
            )
        )

    async def _until_node_is_ready(self, parts: Parts) -> None:
        await until(parts.readiness.reached, parts.processes(), f"the node {self.node_name} to be Ready", START_LIMIT)

    def _running(self) -> Parts:
        if self._parts is None:
            raise HarnessError("the local cluster is not running", "call start first")
        return self._parts


# Another node on this machine, without a control plane of its own.


class JoinedNode:
    """A kubelet with a folder and a sandbox of its own, at the API server of a cluster that runs.

    Its processes end with `stop`, or when this process ends in any way. Its folder stays.
    """

    def __init__(self, cluster: LocalCluster, node_name: str, run_dir: RunDirectory, cri_socket: Path) -> None:
        self.node_name = node_name
        self._cluster = cluster
        self._layout = Layout(run_dir.path)
        self._lock = run_dir.lock
        self._cri_socket = cri_socket
        self._probe = cluster._running().probe
        self._readiness = NodeReadiness(self._probe, node_name, again=self._layout.client_authority.exists())
        self._processes: list[Process] = []
        self._closing = contextlib.AsyncExitStack()

    async def start(self) -> None:
        """Starts the kubelet, without waiting. Raises HarnessError."""
        cluster, binaries = self._cluster, self._cluster._binaries
        self._layout.make(node_names=[self.node_name])
        write_joining_credentials(self._layout, cluster.server, self.node_name, cluster.layout)
        port = Reservation()
        self._closing.callback(port.release)
        plan = self._layout.mount_plan([binaries.kubelet.parent])
        running = await self._closing.enter_async_context(sandbox(ways(), plan, held=[self._lock]))
        kubelet = Kubelet(running, binaries, self._layout, self.node_name, outward_address())
        self._readiness.begin()
        await kubelet.start(
            kubelet_configuration(
                self._layout,
                runtime=str(self._cri_socket),
                port=port.port,
                sync_frequency=cluster._sync_frequency,
                gates=cluster._gates.kubelet,
            )
        )
        assert kubelet.process
        self._processes = [kubelet.process]

    async def until_registered(self) -> None:
        """Returns when the Node object exists. Raises HarnessError."""

        async def registered() -> bool:
            return await self._probe.node(self.node_name) is not None

        await until(registered, self._processes, f"the node {self.node_name} to be registered", START_LIMIT)

    async def until_ready(self) -> None:
        """Returns when the registered node is Ready. Raises HarnessError."""
        await until(self._readiness.reached, self._processes, f"the node {self.node_name} to be Ready", START_LIMIT)

    async def wait(self) -> None:
        """Waits until the kubelet ends unexpectedly. Raises HarnessError, with the most important line of its log."""
        await asyncio.wait([process.exited for process in self._processes])
        check(self._processes)

    async def stop(self) -> None:
        """Kills the kubelet; harmless if it is stopped."""
        await self._closing.aclose()
