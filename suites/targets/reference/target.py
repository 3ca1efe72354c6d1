"""The reference target: manager and fakes in this process, over real unix sockets and gRPC, time under control.

It needs only Python, unless its API server is a real one.
The clock jumps instead of waiting: a window for the next sync of a pod moves it by one resync.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import MappingProxyType

from drahealth.fakes.clock import JumpClock
from drahealth.fakes.cluster.api import Object
from drahealth.fakes.cluster.list_watch import ControlPlaneApi
from drahealth.fakes.cluster.pod_worker.worker import PodWorkers
from drahealth.fakes.control.device_plugin import PluginControl, PluginOptions
from drahealth.fakes.control.driver import DriverControl, DriverOptions
from drahealth.manager.device_plugins import DevicePluginManager
from drahealth.manager.dra import DraManager
from drahealth.manager.gates import Gates
from drahealth.manager.profile import Profile
from drahealth.proto.events import IN_SHORT, Event, Observe, Record, ignore
from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.api_servers.memory import MemoryApiServer, field_rules
from drahealth.suites.targets.api_servers.server import ApiServerProcess
from drahealth.suites.targets.drivers import Drivers, InlineDrivers, ProcessDrivers
from drahealth.suites.targets.reference.cluster import ReferenceCluster
from drahealth.suites.targets.run_directory import RunDirectory
from drahealth.suites.targets.target import Opened, Window

RESYNC = 12.0
"""Seconds between the syncs of a pod when nothing happens. It is longer than each window for changes that the kubelet
is notified of, so a sync that is due by chance does not hide a missing notification."""

_MOMENT = 0.05
"""Real seconds before the clock jumps."""

WINDOWS: Mapping[Window, float] = MappingProxyType({"push": 5.0, "resync": 16.0, "start": 10.0, "restart": 10.0})
LONGEST = 60.0
"""Real seconds of a window in which the Pod status keeps changing, because the machine is slow."""


class ReferenceTarget:
    """Implements `target.Target`. `dra` and `device_plugins` replace parts of the manager, to judge other ones.

    `make_server` makes the API server for the root directory of the node; None for one in memory.
    """

    node_name = "node-a"
    workload_image = "workload.example.com/gpu-job:1"
    workers = PodWorkers

    def __init__(
        self,
        profile: Profile,
        *,
        processes: bool = False,
        make_server: Callable[[Path], ApiServerProcess] | None = None,
        dra: type[DraManager] = DraManager,
        device_plugins: type[DevicePluginManager] = DevicePluginManager,
        windows: Mapping[Window, float] = WINDOWS,
        resync: float = RESYNC,
        longest: float = LONGEST,
    ) -> None:
        self.profile = profile
        self.windows = windows
        self._resync = resync
        self._longest = longest
        self._processes = processes
        self.clock = JumpClock()
        self._folder = RunDirectory.create()
        self._root = self._folder.path
        self.registry_dir = self._root / "plugins_registry"
        self.plugins_dir = self._root / "plugins"
        self.device_plugins_dir = self._root / "device-plugins"
        self._observe: Observe = ignore
        self._server: ApiServerProcess = (
            make_server(self._root)
            if make_server
            else MemoryApiServer(self._root, rules=field_rules(profile), clock=self.clock, observe=self._observed)
        )
        self._node = ReferenceCluster(
            self._root,
            self._server,
            profile=profile,
            clock=self.clock,
            name=self.node_name,
            resync=resync,
            observe=self._observed,
            dra=dra,
            device_plugins=device_plugins,
            workers=self.workers,
        )
        self.runtime = self._node.runtime
        self._drivers: Drivers | None = None
        self._kubelet_is_stopped = False

    @property
    def api(self) -> ControlPlaneApi:
        return self._server.api

    async def start(self) -> None:
        await self._server.start()
        if self._processes:
            self._drivers = await ProcessDrivers.spawn(await self.kubeconfig(), jumping=True)
        else:
            self._drivers = InlineDrivers(self.api, self.clock)
        await self._node.start()

    async def stop(self) -> None:
        async with AsyncExitStack() as stack:  # in reverse order, each whether or not the others fail
            stack.callback(self._folder.remove)
            stack.push_async_callback(self._server.stop)
            stack.push_async_callback(self._node.stop)
            if self._drivers:
                stack.push_async_callback(self._drivers.close)

    async def kubeconfig(self) -> Path:
        return await self._server.kubeconfig()

    async def enter(self, *, alone: bool, observe: Observe) -> None:
        """No other process uses the node, so there is nothing to wait for."""
        self._observe = observe

    def _observed(self, event: Event) -> None:
        if not isinstance(event, IN_SHORT):  # reports are there in full
            self._observe(event)

    async def prepare_namespace(self, namespace: str) -> None:
        """Nothing: no admission plugin asks for anything."""

    async def observe_writes(self, namespace: str, observe: Observe) -> None:
        for write in self._server.status_writes(namespace):
            observe(write)

    async def leave(self) -> None:
        """Nothing: no other process uses the node."""

    async def open_window(self, window: Window) -> Opened:
        if window != "resync":
            return Opened(self.windows[window], longest=self._longest)
        # A change must reach the kubelet before the jump brings the next sync. If the machine is too slow for that,
        # the sync after it comes in real time, within the window.
        await asyncio.sleep(_MOMENT)
        await self._jump(self._resync)
        return Opened(self.windows[window], self._resync, self._longest)

    async def advance_time(self, seconds: float) -> float:
        await asyncio.sleep(min(seconds, _MOMENT))  # so that calls in progress finish before the jump
        await self._node.manager.settled()  # changes are gathered before they are written
        await self._jump(seconds)
        return seconds

    def timers(self) -> frozenset[int] | None:
        known = isinstance(self._drivers, InlineDrivers) and isinstance(self._server, MemoryApiServer)
        return self.clock.pending() if known else None

    async def start_driver(self, options: DriverOptions, observe: Callable[[Record], None]) -> DriverControl:
        return await self._running_drivers.start(options, observe)

    async def start_device_plugin(self, options: PluginOptions, observe: Callable[[Record], None]) -> PluginControl:
        return await self._running_drivers.start_plugin(options, observe)

    async def drop_driver(self, driver: DriverControl | PluginControl) -> None:
        await self._running_drivers.drop(driver)

    async def restart_kubelet(self) -> None:
        await self._node.restart_kubelet()
        self._kubelet_is_stopped = False

    async def stop_kubelet(self) -> None:
        self._kubelet_is_stopped = True
        await self._node.stop_kubelet(kill=True)

    async def start_kubelet(self) -> None:
        if self._kubelet_is_stopped:
            await self.restart_kubelet()

    async def set_gates(self, *, api_server: bool, kubelet: bool, dra: bool = True, messages: bool = True) -> None:
        gates = Gates(kubelet, kubelet and messages, dra)
        await self._node.restart_kubelet(gates, api_server=Gates(api_server, api_server))

    async def stop_api_server(self) -> None:
        await self._server.down()

    async def start_api_server(self) -> None:
        await self._server.up()

    async def end_container(self, pod_uid: str, container: str, code: int) -> None:
        self.runtime.end(pod_uid, container, code)

    async def add_static_pod(self, manifest: Object) -> None:
        raise HarnessError("the reference cannot run static pods", "use the kubelet target")

    async def remove_static_pod(self, manifest: Object) -> None:
        """Nothing: there is none."""

    def cdi_devices(self, pod_uid: str, container: str) -> tuple[str, ...]:
        return self.runtime.newest(pod_uid, container).config.cdi_devices

    def check(self) -> None:
        self._server.check()

    async def log_tail(self) -> str:
        return ""

    @property
    def _running_drivers(self) -> Drivers:
        assert self._drivers, "the target is not started"
        return self._drivers

    async def _jump(self, seconds: float) -> None:
        await self._running_drivers.jump(seconds)
        self.clock.jump(seconds)
