"""The kind target: a cluster in containers with a real container runtime, from checked options."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from drahealth.fakes.cluster.api import PODS, ApiError, ControlPlaneApi, Object
from drahealth.fakes.cluster.kube_client import KubeClient
from drahealth.fakes.cluster.kube_connection import execute
from drahealth.fakes.control.fake_options import DriverControl, DriverOptions, PluginControl, PluginOptions
from drahealth.fakes.control.remote import RemoteHost
from drahealth.manager.profile import Profile
from drahealth.proto.events import Observe, Record
from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.capabilities import Capability
from drahealth.suites.targets.drivers import RemoteDrivers
from drahealth.suites.targets.engine import Engine
from drahealth.suites.targets.kind import program
from drahealth.suites.targets.kind.cluster import (
    ClusterLock,
    ClusterMaker,
    ClusterProvider,
    JoinedCluster,
    PreparedCluster,
)
from drahealth.suites.targets.kind.deployment import NAMESPACE, SERVICE_ACCOUNTS, WORKLOAD, host_in, why_gone
from drahealth.suites.targets.kind.node_control import KindNodes
from drahealth.suites.targets.kind.options import KindOptions
from drahealth.suites.targets.option import KUBERNETES, Values
from drahealth.suites.targets.registry import Launch
from drahealth.suites.targets.target import Opened, Window
from drahealth.suites.targets.versions import feature_gates, kubelet_gates, missing_in, profile_of

# The kind target: a cluster in containers with a real container runtime; the fake driver runs in a pod of the node.

_KUBELET = Path("/var/lib/kubelet")
_CDI = "/var/run/cdi"


class KindTarget:
    """Implements `target.Target`. `worker` is the number of this process among those that share the cluster."""

    registry_dir = _KUBELET / "plugins_registry"
    plugins_dir = _KUBELET / "plugins"
    device_plugins_dir = _KUBELET / "device-plugins"

    def __init__(self, provider: ClusterProvider, profile: Profile, *, worker: int = 0) -> None:
        self.profile = profile
        self.windows: Mapping[Window, float] = {}
        self._provider = provider
        self._worker = worker
        self._cluster: PreparedCluster | None = None
        self._client: KubeClient | None = None
        self._host: RemoteHost | None = None
        self._lock: ClusterLock | None = None

    async def start(self) -> None:
        self._cluster = cluster = await self._provider.up()
        self.windows = {"push": 6.0, "resync": cluster.sync_frequency * 1.5 + 6, "start": 60.0, "restart": 90.0}
        self._lock = ClusterLock(Path(cluster.folder))
        self._client = client = await KubeClient.from_kubeconfig(cluster.kubeconfig)
        self._nodes = KindNodes(Engine(cluster.engine), cluster.control_plane, cluster.nodes, client)
        pod = cluster.pods[self.node_name]
        self._host = host_in(client, NAMESPACE, pod, lambda: why_gone(client, pod))
        self._drivers = RemoteDrivers(self._host)

    async def stop(self) -> None:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._provider.down)
            if self._client:
                stack.push_async_callback(self._client.close)
            if self._host:
                stack.push_async_callback(self._host.close)

    @property
    def node_name(self) -> str:
        return self._started.node_for(self._worker)

    @property
    def workload(self) -> Mapping[str, Any]:
        return {"image": self._started.image, "command": ["sh", "-c", WORKLOAD]}

    @property
    def api(self) -> ControlPlaneApi:
        assert self._client, "the target is not started"
        return self._client

    async def enter(self, *, alone: bool, observe: Observe) -> None:
        assert self._lock, "the target is not started"
        await self._lock.enter(alone=alone)

    async def prepare_namespace(self, namespace: str) -> None:
        """Makes the service account. After a restart the controller may take long to make it."""
        try:
            await self.api.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": namespace}})
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise

    async def observe_writes(self, namespace: str, observe: Observe) -> None:
        for write in await self._nodes.status_writes(namespace):
            observe(write)

    async def leave(self) -> None:
        if self._lock:
            self._lock.leave()

    async def open_window(self, window: Window) -> Opened:
        return Opened(self.windows[window])

    def timers(self) -> frozenset[int] | None:
        return None

    async def advance_time(self, seconds: float) -> float:
        await asyncio.sleep(seconds)
        return 0.0

    async def start_driver(self, options: DriverOptions, observe: Callable[[Record], None]) -> DriverControl:
        return await self._drivers.start(replace(options, cdi_dir=_CDI), observe)

    async def start_device_plugin(self, options: PluginOptions, observe: Callable[[Record], None]) -> PluginControl:
        return await self._drivers.start_plugin(options, observe)

    async def drop_driver(self, driver: DriverControl | PluginControl) -> None:
        await self._drivers.drop(driver)

    async def restart_kubelet(self) -> None:
        await self._nodes.restart_kubelet(self.node_name)

    async def stop_kubelet(self, *, orderly: bool = False) -> None:
        await self._nodes.stop_kubelet(self.node_name, orderly=orderly)

    async def start_kubelet(self) -> None:
        await self._nodes.start_kubelet(self.node_name)

    async def set_gates(self, *, api_server: bool, kubelet: bool, dra: bool = True, messages: bool = True) -> None:
        on_server = feature_gates(self.profile, api_server)
        on_kubelet = kubelet_gates(self.profile, kubelet, dra, messages)
        await self._nodes.set_gates(on_server, on_kubelet)

    async def stop_api_server(self) -> None:
        await self._nodes.stop_api_server()

    async def start_api_server(self) -> None:
        await self._nodes.start_api_server()

    async def end_container(self, pod_uid: str, container: str, code: int) -> None:
        assert self._client, "the target is not started"
        found = [pod["metadata"] for pod in await self._client.list(PODS) if pod["metadata"]["uid"] == pod_uid]
        if not found:
            raise ApiError(404, "NotFound", f"there is no pod with the uid {pod_uid}")
        tell = ("sh", "-c", f"echo {code} > /tmp/exit")
        await execute(self._client.connection, found[0]["namespace"], found[0]["name"], tell, container=container)

    async def add_static_pod(self, manifest: Object) -> None:
        raise HarnessError("the kind target cannot run static pods", "use the kubelet target")

    async def remove_static_pod(self, manifest: Object) -> None:
        """Nothing: there is none."""

    def cdi_devices(self, pod_uid: str, container: str) -> tuple[str, ...]:
        raise HarnessError("the kind target cannot read the CDI devices of a container", "use another target")

    def check(self) -> None:
        if self._host and self._host.problem:
            raise HarnessError(self._host.problem, "see the pods and events of the namespace " + NAMESPACE)

    async def log_tail(self) -> str:
        if not self._cluster:
            return ""
        kubelet = await self._nodes.log_tail(self.node_name)
        return (
            f"kubelet:\n{kubelet}\nkube-apiserver:\n{await self._nodes.log_tail(self._cluster.control_plane, api=True)}"
        )

    @property
    def _started(self) -> PreparedCluster:
        assert self._cluster, "the target is not started"
        return self._cluster


# A run on a kind cluster: its options, checked.


@dataclass(frozen=True, slots=True)
class KindConfiguration:
    """Implements `definition.Configuration`."""

    profile: Profile
    kubernetes: str = program.DEFAULT
    options: KindOptions = field(default_factory=KindOptions)

    @classmethod
    def of(cls, values: Values) -> "KindConfiguration":
        """From the options of a run. Raises ConfigurationError."""
        version = program.with_image(values.text_of(KUBERNETES) or program.DEFAULT)
        return cls(profile_of(version), version, KindOptions.of(values))

    @property
    def missing(self) -> Mapping[Capability, str]:
        return missing_in(self.kubernetes)

    @property
    def is_own_kubelet(self) -> bool:
        return self.options.node_image is not None or self.options.reuse is not None

    @property
    def title(self) -> str:
        cluster = f"the kind cluster {self.options.reuse}" if self.options.reuse else "a kind cluster"
        release = self.kubernetes if self.options.exact else self.kubernetes.rpartition(".")[0]
        return f"{cluster}, Kubernetes {release}"

    @property
    def flags(self) -> Mapping[str, str]:
        minor = self.kubernetes.rpartition(".")[0]
        named = self.kubernetes if self.options.exact else minor if self.kubernetes != program.DEFAULT else ""
        release = {"kubernetes": named} if named else {}
        return {**release, **self.options.flags}

    def make(self, launch: Launch) -> KindTarget:
        if launch.shared:
            return KindTarget(JoinedCluster(launch.shared), self.profile, worker=launch.shared.worker)
        return KindTarget(self._maker(launch), self.profile)

    def share(self, launch: Launch) -> "SharedCluster":
        """The cluster: workers of a distributed run use one."""
        return SharedCluster(self._maker(launch))

    def _maker(self, launch: Launch) -> ClusterMaker:
        gates = feature_gates(self.profile)
        return ClusterMaker(self.options, self.kubernetes, gates, launch.progress, launch.failed)


class SharedCluster:
    """Implements `definition.SharedEnvironment`."""

    def __init__(self, maker: ClusterMaker) -> None:
        self._maker = maker

    async def up(self) -> Mapping[str, Any]:
        return asdict(await self._maker.up())

    async def down(self) -> None:
        await self._maker.down()
