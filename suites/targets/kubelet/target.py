"""The kubelet target: a real kubelet and a real control plane on this machine, from checked options."""

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from drahealth.fakes.cluster.api import ControlPlaneApi, Object
from drahealth.fakes.cluster.cri import CriServer
from drahealth.fakes.cluster.kube_client import KubeClient
from drahealth.fakes.cluster.runtime import ContainerRuntime
from drahealth.fakes.control.fake_options import DriverControl, DriverOptions, PluginControl, PluginOptions
from drahealth.manager import releases
from drahealth.manager.profile import Profile
from drahealth.manager.releases import DEFAULT_VERSION
from drahealth.proto.clock import SystemClock
from drahealth.proto.events import Observe, Record
from drahealth.suites.targets.capabilities import Capability
from drahealth.suites.targets.drivers import Drivers, InlineDrivers, ProcessDrivers
from drahealth.suites.targets.kubelet.binaries import Binaries
from drahealth.suites.targets.kubelet.cluster import LocalCluster
from drahealth.suites.targets.kubelet.control_plane import ComponentGates
from drahealth.suites.targets.kubelet.ensure import check_release, check_skew, ensure, release_or
from drahealth.suites.targets.option import CONTROL_PLANE, DRIVER, KUBELET, KUBERNETES, Values, place_of
from drahealth.suites.targets.registry import JudgedNode, Launch
from drahealth.suites.targets.run_directory import RunDirectory
from drahealth.suites.targets.target import Opened, Placement, Window
from drahealth.suites.targets.versions import feature_gates, judged_as, kubelet_gates, missing_in, newer_than_known

# The kubelet target: a real kubelet and a real control plane on this machine, with a fake container runtime.
#
# It needs neither root nor a container engine. Time is real: a wait for the next sync of a pod takes that long.

SYNC_FREQUENCY = 6.0
"""Seconds; the kubelet syncs a pod after 1 to 1.5 times as long. It is longer than the window `push`: a sync that is
due by chance must seldom hide a missing notification. On the reference no sync is due by chance."""


class KubeletTarget:
    """Implements `target.Target`."""

    node_name = "node-a"
    workload: Mapping[str, Any] = {"image": "workload.example.com/gpu-job:1"}
    placement = Placement()
    windows: Mapping[Window, float]

    def __init__(
        self,
        binaries: Binaries,
        profile: Profile,
        *,
        api_server: Profile | None = None,
        processes: bool = False,
        sync_frequency: float = SYNC_FREQUENCY,
    ) -> None:
        """`api_server` is the profile of the release of the control plane, if it is not that of the kubelet."""
        self.profile = profile
        self._api_server = api_server or profile
        self._binaries = binaries
        self._processes = processes
        self._sync_frequency = sync_frequency
        # After an outage of the API server, a watch of client-go can wait 30 s, with jitter 60 s, until it tries again.
        self.windows = MappingProxyType(
            {"push": 5.0, "resync": sync_frequency * 1.5 + 5, "start": 30.0, "restart": 90.0}
        )
        self.clock = SystemClock()
        self._runtime = ContainerRuntime()
        self._run: RunDirectory | None = None
        self._cri: CriServer | None = None
        self._cluster: LocalCluster | None = None
        self._client: KubeClient | None = None
        self._drivers: Drivers | None = None

    async def start(self) -> None:
        self._run = run = RunDirectory.create()
        self._cri = CriServer(self._runtime, run.path / "cri.sock", run.path / "containers")
        await self._cri.start()
        self._cluster = LocalCluster(
            self._binaries,
            run_dir=run,
            cri_socket=run.path / "cri.sock",
            sync_frequency=self._sync_frequency,
            node_name=self.node_name,
            gates=ComponentGates(feature_gates(self._api_server), feature_gates(self.profile)),
        )
        await self._cluster.start()
        self._client = client = await KubeClient.from_kubeconfig(self._cluster.kubeconfig)
        if self._processes:
            self._drivers = await ProcessDrivers.spawn(self._cluster.kubeconfig, jumping=False)
        else:
            self._drivers = InlineDrivers(client, self.clock)

    async def stop(self) -> None:
        async with AsyncExitStack() as stack:  # in reverse order, each whether or not the others fail
            stack.push_async_callback(self._runtime.close)
            if self._run:
                stack.callback(self._run.remove)
            if self._cri:
                stack.push_async_callback(self._cri.stop)
            if self._cluster:
                stack.push_async_callback(self._cluster.stop)
            if self._client:
                stack.push_async_callback(self._client.close)
            if self._drivers:
                stack.push_async_callback(self._drivers.close)

    @property
    def api(self) -> ControlPlaneApi:
        return self.client

    @property
    def client(self) -> KubeClient:
        """The client behind `api`, which can also bind Pods."""
        assert self._client, "the target is not started"
        return self._client

    @property
    def registry_dir(self) -> Path:
        return self._started.registry_dir

    @property
    def plugins_dir(self) -> Path:
        return self._started.plugins_dir

    @property
    def device_plugins_dir(self) -> Path:
        return self._started.device_plugins_dir

    async def kubeconfig(self) -> Path:
        return self._started.kubeconfig

    async def on(self, node: str, profile: Profile) -> "KubeletTarget":
        """This target, which has one node."""
        return self

    async def enter(self, *, alone: bool, observe: Observe) -> None:
        """No other process uses the node, so there is nothing to wait for."""

    async def observe_writes(self, namespace: str, observe: Observe) -> None:
        for write in self._started.audit.status_writes(namespace):
            observe(write)

    async def prepare_namespace(self, namespace: str) -> None:
        """Nothing: no admission plugin asks for anything."""

    async def leave(self) -> None:
        """Nothing: no other process uses the node."""

    async def open_window(self, window: Window) -> Opened:
        return Opened(self.windows[window])

    def timers(self) -> frozenset[int] | None:
        return None

    async def advance_time(self, seconds: float) -> float:
        await asyncio.sleep(seconds)
        return 0.0

    async def start_driver(self, options: DriverOptions, observe: Callable[[Record], None]) -> DriverControl:
        assert self._drivers, "the target is not started"
        return await self._drivers.start(options, observe)

    async def start_device_plugin(self, options: PluginOptions, observe: Callable[[Record], None]) -> PluginControl:
        assert self._drivers, "the target is not started"
        return await self._drivers.start_plugin(options, observe)

    async def drop_driver(self, driver: DriverControl | PluginControl) -> None:
        assert self._drivers, "the target is not started"
        await self._drivers.drop(driver)

    async def restart_kubelet(self) -> None:
        await self._started.restart_kubelet()

    async def stop_kubelet(self, *, orderly: bool = False) -> None:
        await self._started.stop_kubelet(hard=not orderly)

    async def start_kubelet(self) -> None:
        await self._started.start_kubelet()

    async def set_gates(self, *, api_server: bool, kubelet: bool, dra: bool = True, messages: bool = True) -> None:
        on_server = feature_gates(self._api_server, api_server)
        on_kubelet = kubelet_gates(self.profile, kubelet, dra, messages)
        await self._started.set_gates(on_server, on_kubelet)

    async def stop_api_server(self) -> None:
        await self._started.stop_api_server()

    async def start_api_server(self) -> None:
        await self._started.start_api_server()

    async def end_container(self, pod_uid: str, container: str, code: int) -> None:
        self._runtime.end(pod_uid, container, code)

    async def add_static_pod(self, manifest: Object) -> None:
        path = self._static_pod(manifest)
        unseen = path.with_name(f".{path.name}")  # the kubelet ignores it, and must not read half of a manifest
        unseen.write_text(json.dumps(manifest), encoding="utf-8")
        unseen.rename(path)

    async def remove_static_pod(self, manifest: Object) -> None:
        self._static_pod(manifest).unlink(missing_ok=True)

    def cdi_devices(self, pod_uid: str, container: str) -> tuple[str, ...]:
        return self._runtime.newest(pod_uid, container).config.cdi_devices

    def check(self) -> None:
        self._started.check()

    async def log_tail(self) -> str:
        if not self._cluster:
            return ""
        return "\n".join(f"{name}:\n{self._cluster.tail(name)}" for name in ("kubelet", "kube-apiserver"))

    def _static_pod(self, manifest: Object) -> Path:
        about = manifest["metadata"]
        return self._started.layout.static_pods_dir / f"{about['namespace']}-{about['name']}.json"

    @property
    def _started(self) -> LocalCluster:
        assert self._cluster, "the target is not started"
        return self._cluster


# A run on a real kubelet: its options, checked.


@dataclass(frozen=True, slots=True)
class KubeletConfiguration:
    """Implements `definition.Configuration`."""

    profile: Profile
    kubernetes: str = DEFAULT_VERSION
    driver: str = "inline"
    kubelet: Path | None = None
    """A kubelet that the user built; None: that of the release."""
    control_plane: str = ""
    """The release of the control plane, if it is not `kubernetes`."""

    @classmethod
    def of(cls, values: Values) -> "KubeletConfiguration":
        """From the options of a run. Raises ConfigurationError for a release that is too old, and for a kubelet of
        another release."""
        kubelet, control_plane = values.get(KUBELET), values.get(CONTROL_PLANE) or ""
        version = values.get(KUBERNETES) or DEFAULT_VERSION
        if kubelet and control_plane and not values.get(KUBERNETES):
            version = release_or(kubelet, control_plane)
        release = version if kubelet is None else check_release(kubelet, version)
        profile = judged_as(release)
        if control_plane:
            check_skew(release, control_plane)
            judged_as(control_plane)
        control_plane = "" if control_plane == version else control_plane
        return cls(profile, version, values.get(DRIVER) or "inline", kubelet, control_plane)

    @property
    def missing(self) -> Mapping[Capability, str]:
        return {**missing_in(self.control_plane or self.kubernetes), **missing_in(self.kubernetes)}

    @property
    def server_profile(self) -> Profile | None:
        return judged_as(self.control_plane) if self.control_plane else None

    @property
    def is_own_kubelet(self) -> bool:
        return self.kubelet is not None or releases.is_newer(self.kubernetes)

    @property
    def kubelets(self) -> tuple[str, ...]:
        return (check_release(self.kubelet, self.kubernetes) if self.kubelet else self.kubernetes,)

    @property
    def judged_nodes(self) -> Mapping[str, JudgedNode]:
        return {}

    @property
    def title(self) -> str:
        own = f", the kubelet {self.kubelet}" if self.kubelet else ""
        plane = f", control plane {self.control_plane}" if self.control_plane else ""
        newer = newer_than_known(*self.kubelets)
        return f"a real kubelet, Kubernetes {self.kubernetes}{own}{plane}{newer}{place_of(self.driver)}"

    @property
    def flags(self) -> Mapping[str, str]:
        own = {"kubelet": str(self.kubelet)} if self.kubelet else {}
        place = {} if self.driver == "inline" else {"driver": self.driver}
        plane = {"control-plane": self.control_plane} if self.control_plane else {}
        return {"kubernetes": self.kubernetes, **plane, **own, **place}

    def make(self, launch: Launch) -> KubeletTarget:
        # Before any loop runs: a build takes minutes, and Ctrl-C ends it at once.
        binaries = ensure(self.control_plane or self.kubernetes, launch.progress)
        if self.kubelet:
            binaries = replace(binaries, kubelet=self.kubelet)
        elif self.control_plane:
            binaries = replace(binaries, kubelet=ensure(self.kubernetes, launch.progress).kubelet)
        return KubeletTarget(
            binaries,
            self.profile,
            api_server=self.server_profile,
            processes=self.driver == "process",
            sync_frequency=launch.resync or SYNC_FREQUENCY,
        )

    def share(self, launch: Launch) -> None:
        """Nothing: each worker has a kubelet of its own."""
