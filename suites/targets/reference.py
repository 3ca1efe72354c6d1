"""The reference target: manager and fakes in this process, over real unix sockets and gRPC, time under control.

It needs nothing but Python. What would take the node seconds is jumped over: a window that waits for a pod's next sync
moves the clock by one resync.
"""

import asyncio
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from drahealth.fakes.api import NODES, SLICES
from drahealth.fakes.api_server.gates import MESSAGE_GATE, STATUS_GATE, GateRules
from drahealth.fakes.api_server.server import ApiServer
from drahealth.fakes.clock import JumpClock
from drahealth.fakes.containers.runtime import ContainerRuntime
from drahealth.fakes.hardware.control import DriverControl, DriverOptions
from drahealth.fakes.pod_worker.worker import PodWorkers
from drahealth.fakes.scheduling.scheduler import Scheduler
from drahealth.manager.dra import DraManager
from drahealth.manager.gates import Gates
from drahealth.manager.manager import DeviceManager
from drahealth.manager.profile import Profile
from drahealth.proto.events import Record
from drahealth.suites.local.run_directory import RunDirectory
from drahealth.suites.targets.drivers import Drivers, InlineDrivers, ProcessDrivers
from drahealth.suites.targets.target import Opened, Window

if TYPE_CHECKING:
    from drahealth.fakes.api_server.http import HttpApi

RESYNC = 8.0
"""Seconds between a pod's syncs when nothing happens."""

WINDOWS: Mapping[Window, float] = MappingProxyType({"push": 5.0, "resync": 12.0, "start": 10.0, "restart": 10.0})


class ReferenceTarget:
    """Implements `target.Target`. Another `dra` manager than the reference's is judged just like a kubelet."""

    node_name = "node-a"
    workload_image = "workload.example.com/gpu-job:1"

    def __init__(
        self,
        profile: Profile,
        *,
        processes: bool = False,
        dra: type[DraManager] = DraManager,
        windows: Mapping[Window, float] = WINDOWS,
    ) -> None:
        self.profile = profile
        self.windows = windows
        self._dra = dra
        self._processes = processes
        self._clock = JumpClock()
        self._gates_on = True
        rules = GateRules(filters_reads=profile.api_filters_reads, keeps_what_was_there=profile.api_keeps_stored)
        self.api = ApiServer(rules=rules, clock=self._clock)
        self._folder = RunDirectory.create()
        self._root = self._folder.path
        self.registry_dir = self._root / "plugins_registry"
        self.plugins_dir = self._root / "plugins"
        self.runtime = ContainerRuntime(self._clock)
        self._scheduler = Scheduler(self.api)
        self._drivers: Drivers = InlineDrivers(self.api, self._clock)
        self._http: HttpApi | None = None
        self._make_kubelet()

    async def start(self) -> None:
        await self.api.create(NODES, {"metadata": {"name": self.node_name}})
        if self._processes:
            await self._serve_http()
        await self._scheduler.start()
        await self._start_kubelet()

    async def stop(self) -> None:
        await self._drivers.close()
        await self._stop_kubelet()
        await self._scheduler.stop()
        await self.runtime.close()
        if self._http:
            await self._http.stop()
        self._folder.remove()

    async def enter(self, *, alone: bool) -> None:
        """The node is this process' own."""

    async def furnish(self, namespace: str) -> None:
        """Nothing: no admission plugin asks for anything."""

    async def leave(self) -> None:
        """It always was."""

    async def open_window(self, window: Window) -> Opened:
        if window != "resync":
            return Opened(self.windows[window])
        # What is to show at the next sync must have reached the kubelet before the clock brings that sync; where the
        # machine was too slow for this, the sync after it comes in real time, within the window.
        await asyncio.sleep(0.05)
        await self._jump(RESYNC)
        return Opened(self.windows[window], RESYNC)

    async def let_pass(self, seconds: float) -> float:
        await self._jump(seconds)
        return seconds

    async def start_driver(self, options: DriverOptions, observe: Callable[[Record], None]) -> DriverControl:
        return await self._drivers.start(options, observe)

    async def drop_driver(self, driver: DriverControl) -> None:
        await self._drivers.drop(driver)

    async def restart_kubelet(self) -> None:
        await self._stop_kubelet()
        self._make_kubelet()
        await self._start_kubelet()

    async def set_gates(self, on: bool) -> None:
        self._gates_on = on
        self.api.restart({STATUS_GATE: on, MESSAGE_GATE: on})
        await self.restart_kubelet()

    async def end_container(self, pod_uid: str, container: str, code: int) -> None:
        self.runtime.end(pod_uid, container, code)

    def check(self) -> None:
        """All of it lives in this process."""

    async def log_tail(self) -> str:
        return ""

    async def _jump(self, seconds: float) -> None:
        await self._drivers.jump(seconds)
        self._clock.jump(seconds)

    def _make_kubelet(self) -> None:
        gates = Gates(self._gates_on, self._gates_on)
        self._manager = DeviceManager(self._root, profile=self.profile, gates=gates, clock=self._clock, dra=self._dra)
        self._workers = PodWorkers(
            self.api, self._manager, self.runtime, self.node_name, clock=self._clock, resync=RESYNC
        )

    async def _start_kubelet(self) -> None:
        for slice_ in await self.api.list(SLICES):  # as a kubelet does when it starts (W-30)
            await self.api.delete(SLICES, slice_["metadata"]["name"])
        await self._manager.start()
        await self._workers.start()

    async def _stop_kubelet(self) -> None:
        await self._workers.stop()
        await self._manager.stop()

    async def _serve_http(self) -> None:
        """Drivers in other processes reach the API server over loopback."""
        from drahealth.fakes.api_server.http import HttpApi  # only here: it brings a web server

        self._http = HttpApi(self.api)
        await self._http.start()
        kubeconfig = self._root / "kubeconfig"
        self._http.write_kubeconfig(kubeconfig)
        self._drivers = await ProcessDrivers.spawn(kubeconfig, jumping=True)
