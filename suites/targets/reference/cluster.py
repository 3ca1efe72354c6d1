"""The reference as a whole node with its control plane: the manager, a pod worker, a container runtime, an API server
in memory or a real one, and a scheduler.

The reference target runs scenarios on it, with time under control. `drahealth manager` runs it as a program.
"""

import asyncio
from pathlib import Path

from drahealth.fakes.cluster.api import NODES, ApiError, ControlPlaneApi, timestamp
from drahealth.fakes.cluster.pods import with_condition
from drahealth.fakes.cluster.runtime import ContainerRuntime
from drahealth.fakes.cluster.scheduling.scheduler import ControlLoop, ReplicaSetController, Scheduler
from drahealth.manager.device_plugins import DevicePluginManager
from drahealth.manager.dra import DraManager
from drahealth.manager.manager import DeviceManager
from drahealth.manager.pod_worker.slice_removal import SliceRemoval
from drahealth.manager.pod_worker.worker import PodWorkers
from drahealth.manager.profile import Gates, Profile
from drahealth.proto.clock import Clock
from drahealth.proto.events import Observe, ignore
from drahealth.suites.targets.api_servers.server import ALL_ON, ApiServerProcess

_SIZE = {"cpu": "8"}
"""The amounts of the node. Its containers have no processes, so the pod worker grants any amount."""


class ReferenceCluster:
    """A node named `name` whose kubelet has `root` as its root directory and syncs each pod every `resync` seconds.

    The API server must run from before `start` until after `stop`. `gates` are those of the kubelet. `observe` gets the
    events of the manager. `dra`, `device_plugins` and `workers` replace those of the reference.
    """

    def __init__(
        self,
        root: Path,
        server: ApiServerProcess,
        *,
        profile: Profile,
        clock: Clock,
        name: str,
        resync: float,
        gates: Gates = ALL_ON,
        observe: Observe = ignore,
        dra: type[DraManager] = DraManager,
        device_plugins: type[DevicePluginManager] = DevicePluginManager,
        workers: type[PodWorkers] = PodWorkers,
    ) -> None:
        self.name = name
        self.root = root
        self._profile = profile
        self._clock = clock
        self._resync = resync
        self._gates = gates
        self._observe = observe
        self._dra = dra
        self._device_plugins = device_plugins
        self._workers_type = workers
        self._server = server
        self.runtime = ContainerRuntime(clock)
        self._controllers: list[ControlLoop] = []
        self._workers: PodWorkers | None = None
        self._slices: SliceRemoval | None = None
        self.manager = self._new_manager()

    @property
    def api(self) -> ControlPlaneApi:
        """A client of the API server."""
        return self._server.api

    async def start(self) -> None:
        """The control plane, then the kubelet."""
        await self.start_control_plane()
        await self.start_kubelet()

    async def start_control_plane(self) -> None:
        """Makes the Node object, unless it exists, and starts to schedule pods."""
        await self._make_node()
        self._controllers = [Scheduler(self.api, clock=self._clock), ReplicaSetController(self.api)]
        for controller in self._controllers:
            await controller.start()

    async def _make_node(self) -> None:
        try:
            node = await self.api.create(
                NODES, {"metadata": {"name": self.name, "labels": {"kubernetes.io/hostname": self.name}}}
            )
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            return
        if node.get("spec", {}).get("taints"):  # a real API server adds one until the node is ready
            node = await self.api.replace(NODES, {**node, "spec": {}})
        now = timestamp(self._clock.wall())
        ready = with_condition(node.get("status") or {}, "Ready", True, now=now, reason="KubeletReady")
        sizes = {"capacity": _SIZE, "allocatable": _SIZE}
        await self.api.replace_status(NODES, {**node, "status": {**ready, **sizes}})

    async def wait(self) -> None:
        """Raises the error that ends a part of the control plane; none should end before `stop`."""
        await asyncio.gather(self._server.wait(), *(controller.wait() for controller in self._controllers))

    async def stop(self) -> None:
        """Stops everything; its files stay. Harmless on a node that never started."""
        await self.stop_kubelet()
        for controller in reversed(self._controllers):
            await controller.stop()
        await self.runtime.close()

    async def restart_kubelet(self, gates: Gates | None = None, *, api_server: Gates | None = None) -> None:
        """Kills the kubelet and starts it with the same files; with `gates` restarts the API server first.

        `api_server` are the gates of the API server, if they differ from those of the kubelet.
        """
        if gates is not None:
            self._gates = gates
            await self._server.restart(api_server or gates)
        await self.stop_kubelet(kill=True)
        self.manager = self._new_manager()
        await self.start_kubelet()

    async def start_kubelet(self) -> None:
        """Returns when the existing pods are synced."""
        self._slices = SliceRemoval(self.api, self.manager, self.name, self._clock)
        self._workers = self._workers_type(
            self.api,
            self.manager,
            self.runtime,
            self.name,
            clock=self._clock,
            resync=self._resync,
            health_events=self._profile.health_events,
        )
        await self._slices.start()
        await self.manager.start()
        await self._workers.start()

    async def stop_kubelet(self, *, kill: bool = False) -> None:
        """Stops the kubelet; containers keep running. With `kill` it writes nothing that is pending."""
        if self._slices:
            await self._slices.stop()
        if self._workers:
            await self._workers.stop()
        await (self.manager.kill() if kill else self.manager.stop())

    def _new_manager(self) -> DeviceManager:
        return DeviceManager(
            self.root,
            profile=self._profile,
            gates=self._gates,
            clock=self._clock,
            observe=self._observe,
            dra=self._dra,
            device_plugins=self._device_plugins,
        )
