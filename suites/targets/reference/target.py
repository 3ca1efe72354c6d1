"""The reference target: manager and fakes in this process, as a whole node with its control plane."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from drahealth.fakes.clock import JumpClock
from drahealth.fakes.cluster.api import NODES, ApiError, ControlPlaneApi, Object, timestamp
from drahealth.fakes.cluster.pods import with_condition
from drahealth.fakes.cluster.runtime import ContainerRuntime
from drahealth.fakes.cluster.scheduler import ControlLoop, ReplicaSetController, Scheduler
from drahealth.fakes.control.fake_options import DriverControl, DriverOptions, PluginControl, PluginOptions
from drahealth.manager.device_plugins import DevicePluginManager
from drahealth.manager.dra import DraManager
from drahealth.manager.manager import DeviceManager
from drahealth.manager.pod_worker.slice_removal import SliceRemoval
from drahealth.manager.pod_worker.worker import PodWorkers
from drahealth.manager.profile import KEP, Gates, Profile
from drahealth.manager.releases import DEFAULT_VERSION, FIXABLE, NEWEST, with_fixes
from drahealth.proto.clock import Clock
from drahealth.proto.events import IN_SHORT, Event, Observe, Record, ignore
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.targets.api_servers import ALL_ON, ApiServerProcess, MemoryApiServer, field_rules
from drahealth.suites.targets.capabilities import Capability
from drahealth.suites.targets.drivers import Drivers, InlineDrivers, ProcessDrivers
from drahealth.suites.targets.option import (
    API_SERVER,
    DRIVER,
    FIXED,
    KUBERNETES,
    PROFILE,
    ApiServerKind,
    Values,
    place_of,
)
from drahealth.suites.targets.registry import JudgedNode, Launch
from drahealth.suites.targets.run_directory import RunDirectory
from drahealth.suites.targets.target import Opened, Placement, Window
from drahealth.suites.targets.versions import locked_in, missing_in, profile_of

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


# The reference target: manager and fakes in this process, over real unix sockets and gRPC, time under control.
#
# It needs only Python, unless its API server is a real one. The clock jumps instead of waiting: a window for the next
# sync of a pod moves it by one resync.

RESYNC = 12.0
"""Seconds between the syncs of a pod when nothing happens. It is longer than each window for changes that the kubelet
is notified of, so a sync that is due by chance does not hide a missing notification."""

_MOMENT = 0.05
"""Real seconds before the clock jumps."""

WINDOWS: Mapping[Window, float] = MappingProxyType({"push": 5.0, "resync": 16.0, "start": 10.0, "restart": 10.0})
LONGEST = 60.0
"""Real seconds of a window at most, if the machine is slow."""


class ReferenceTarget:
    """Implements `target.Target`. `dra` and `device_plugins` replace parts of the manager, to judge other ones.

    `make_server` makes the API server for the root directory of the node; None for one in memory.
    """

    node_name = "node-a"
    workload: Mapping[str, Any] = {"image": "workload.example.com/gpu-job:1"}
    placement = Placement()
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

    async def on(self, node: str, profile: Profile) -> "ReferenceTarget":
        """This target, which has one node."""
        return self

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

    async def stop_kubelet(self, *, orderly: bool = False) -> None:
        self._kubelet_is_stopped = True
        await self._node.stop_kubelet(kill=not orderly)

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


# A run on the reference: its options, checked.

LACKS_KEP_API = {
    Capability.KEP_API: "the API server of a release lacks fields and names of the KEP. So these scenarios "
    "would fail, and the profile kep has no known issues that allow the failures"
}

LACKS_RESIZE = {
    Capability.RESIZE: "the reference does not write the resources of containers into the Pod status. Without these "
    "resources the API server rejects a resize"
}


@dataclass(frozen=True, slots=True)
class ReferenceConfiguration:
    """Implements `definition.Configuration`. `kubernetes` is the release of a real API server."""

    profile: Profile = KEP
    driver: str = "inline"
    api_server: ApiServerKind = "memory"
    kubernetes: str = DEFAULT_VERSION

    @classmethod
    def of(cls, values: Values) -> "ReferenceConfiguration":
        """From the options of a run. Raises ConfigurationError for options that do not fit together."""
        kind: ApiServerKind = values.get(API_SERVER) or "memory"
        version = values.get(KUBERNETES)
        if version and kind == "memory":
            raise ConfigurationError("--kubernetes needs --api-server real, or --target kubelet or kind")
        profile, version = values.get(PROFILE) or KEP, version or DEFAULT_VERSION
        if kind == "real":
            _check_release(profile, version)
        if fixed := values.get(FIXED):
            profile = _fixed(profile, fixed)
        return cls(profile, values.get(DRIVER) or "inline", kind, version)

    @property
    def missing(self) -> Mapping[Capability, str]:
        if self.api_server == "memory":
            return locked_in(self.profile.release) if self.profile.release else {}
        return {**missing_in(self.kubernetes), **LACKS_RESIZE, **(LACKS_KEP_API if self.profile == KEP else {})}

    @property
    def is_own_kubelet(self) -> bool:
        return False

    @property
    def kubelets(self) -> tuple[str, ...]:
        return ()

    @property
    def server_profile(self) -> None:
        """It is of the same release."""

    @property
    def judged_nodes(self) -> Mapping[str, JudgedNode]:
        return {}

    @property
    def title(self) -> str:
        server = f", kube-apiserver {self.kubernetes}" if self.api_server == "real" else ""
        return f"the reference, profile {self.profile.name}{server}{place_of(self.driver)}"

    @property
    def flags(self) -> Mapping[str, str]:
        profile = {} if self.profile == KEP else {"profile": self.profile.name}
        server = {"api-server": "real", "kubernetes": self.kubernetes} if self.api_server == "real" else {}
        return {**profile, **server, **({} if self.driver == "inline" else {"driver": self.driver})}

    def make(self, launch: Launch) -> ReferenceTarget:
        make_server = None
        if self.api_server == "real":
            from drahealth.suites.targets.api_servers import real_api_servers

            # Before any loop runs: a build takes minutes, and Ctrl-C ends it at once.
            make_server = real_api_servers(self.kubernetes, launch.progress, audit=True)
        return ReferenceTarget(
            self.profile,
            processes=self.driver == "process",
            make_server=make_server,
            resync=launch.resync or RESYNC,
        )

    def share(self, launch: Launch) -> None:
        """Nothing: each worker has a reference of its own."""


def _fixed(profile: Profile, issues: Sequence[str]) -> Profile:
    """The profile of a release with open fixes. Raises ConfigurationError for the KEP, and for an issue without one."""
    if profile.release is None:
        raise ConfigurationError(
            "--fixed needs the profile of a release: the profile kep has no known issues",
            f"pass --profile {NEWEST.name}",
        )
    if without := [issue for issue in issues if issue not in FIXABLE]:
        raise ConfigurationError(
            f"--fixed: no open fix of {without[0]} is known, so the reference cannot behave as with it",
            f"choose next, or of {', '.join(FIXABLE)}",
        )
    return with_fixes(profile, issues)


def _check_release(profile: Profile, version: str) -> None:
    """A scenario is judged by one release, which its API server must have, too. Raises ConfigurationError."""
    release = profile_of(version)
    if profile == KEP and not release.messages:
        raise ConfigurationError(
            f"--profile kep needs Kubernetes 1.36 or newer, got {version}, which has no messages in Pod statuses",
            f"pass --profile {release.name}, or a newer --kubernetes",
        )
    if profile != KEP and profile.release != release.release:
        raise ConfigurationError(
            f"--profile {profile.name} does not match --kubernetes {version}", f"pass --profile {release.name} or kep"
        )
