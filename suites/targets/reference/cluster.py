"""The reference as a whole node with its control plane: the manager, a pod worker, a container runtime, an API server
in memory, and a scheduler.

The reference target runs scenarios on it, with time under control. `drahealth manager` runs it as a program.
"""

import asyncio
from pathlib import Path

from drahealth.fakes.cluster.api import NODES, ApiError
from drahealth.fakes.cluster.api_server.gates import MESSAGE_GATE, STATUS_GATE, FieldRules
from drahealth.fakes.cluster.api_server.object_files import ObjectFiles
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.cluster.containers.runtime import ContainerRuntime
from drahealth.fakes.cluster.pod_worker.slice_removal import SliceRemoval
from drahealth.fakes.cluster.pod_worker.worker import PodWorkers
from drahealth.fakes.cluster.scheduling.replica_sets import ReplicaSetController
from drahealth.fakes.cluster.scheduling.scheduler import Scheduler
from drahealth.manager.device_plugins import DevicePluginManager
from drahealth.manager.dra import DraManager
from drahealth.manager.gates import Gates
from drahealth.manager.manager import DeviceManager
from drahealth.manager.profile import Profile
from drahealth.proto.clock import Clock
from drahealth.proto.events import Observe, ignore

ALL_ON = Gates()


class ReferenceCluster:
    """A node named `name` whose kubelet has `root` as its root directory and syncs each pod every `resync` seconds.

    `gates` are those of the API server and the kubelet. With `files` the objects of the API server outlive the process;
    raises OSError if these cannot be written. `observe` gets the events of the manager. `dra`, `device_plugins` and
    `workers` replace those of the reference.
    """

    def __init__(
        self,
        root: Path,
        *,
        profile: Profile,
        clock: Clock,
        name: str,
        resync: float,
        gates: Gates = ALL_ON,
        files: ObjectFiles | None = None,
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
        rules = FieldRules(
            filters_reads=profile.api_filters_reads,
            keeps_what_was_there=profile.api_keeps_stored,
            has_pod_field=profile.pod_level,
            names_every_request=profile.whole_claim == "an entry for each request",
        )
        self.api = ApiServer(rules=rules, gates=_by_name(gates), clock=clock, files=files)
        self.runtime = ContainerRuntime(clock)
        self._scheduler = Scheduler(self.api, clock=clock)
        self._replica_sets = ReplicaSetController(self.api)
        self._make_kubelet()

    async def start(self) -> None:
        """The control plane, then the kubelet."""
        await self.start_control_plane()
        await self.start_kubelet()

    async def start_control_plane(self) -> None:
        """Makes the Node object, unless it exists, and starts to schedule pods."""
        try:
            await self.api.create(NODES, {"metadata": {"name": self.name}})
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
        await self._scheduler.start()
        await self._replica_sets.start()

    async def wait(self) -> None:
        """Raises the error that ends a part of the control plane; none should end before `stop`."""
        await asyncio.gather(self._scheduler.wait(), self._replica_sets.wait())

    async def stop(self) -> None:
        """Stops everything; its files stay. Harmless on a node that never started."""
        await self.stop_kubelet()
        await self._replica_sets.stop()
        await self._scheduler.stop()
        await self.runtime.close()

    async def restart_kubelet(self, gates: Gates | None = None, *, api_server: Gates | None = None) -> None:
        """Stops the kubelet and starts it with the same files; with `gates` restarts the API server first.

        `api_server` are the gates of the API server, if they differ from those of the kubelet.
        """
        if gates is not None:
            self._gates = gates
            self.api.restart(_by_name(api_server or gates))
        await self.stop_kubelet()
        self._make_kubelet()
        await self.start_kubelet()

    async def start_kubelet(self) -> None:
        """Returns when the existing pods are synced."""
        await self._slices.start()
        await self.manager.start()
        await self._workers.start()

    async def stop_kubelet(self) -> None:
        """Stops the kubelet; containers keep running."""
        await self._slices.stop()
        await self._workers.stop()
        await self.manager.stop()

    def _make_kubelet(self) -> None:
        self.manager = DeviceManager(
            self.root,
            profile=self._profile,
            gates=self._gates,
            clock=self._clock,
            observe=self._observe,
            dra=self._dra,
            device_plugins=self._device_plugins,
        )
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


def _by_name(gates: Gates) -> dict[str, bool]:
    return {STATUS_GATE: gates.resource_health_status, MESSAGE_GATE: gates.resource_health_status_message}
