"""The kind target: a cluster in containers with a real container runtime; the fake driver runs in a pod of the node."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from drahealth.fakes.cluster.api import PODS, ApiError, Object
from drahealth.fakes.cluster.clients.exec_stream import execute
from drahealth.fakes.cluster.clients.kube_client import KubeClient
from drahealth.fakes.cluster.list_watch import ControlPlaneApi
from drahealth.fakes.control.device_plugin import PluginControl, PluginOptions
from drahealth.fakes.control.driver import DriverControl, DriverOptions
from drahealth.fakes.control.remote import RemoteHost
from drahealth.manager.profile import Profile
from drahealth.proto.events import Observe, Record
from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.drivers import RemoteDrivers
from drahealth.suites.targets.engine.engine import Engine
from drahealth.suites.targets.gates import feature_gates, kubelet_gates
from drahealth.suites.targets.kind.cluster.cluster_lock import ClusterLock
from drahealth.suites.targets.kind.cluster.node_control import KindNodes
from drahealth.suites.targets.kind.cluster.prepared_cluster import ClusterProvider, PreparedCluster
from drahealth.suites.targets.pods.deployment import NAMESPACE, why_gone
from drahealth.suites.targets.pods.drivers import host_in
from drahealth.suites.targets.pods.manifests import SERVICE_ACCOUNTS
from drahealth.suites.targets.target import Opened, Window

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
    def workload_image(self) -> str:
        return self._started.image

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

    async def stop_kubelet(self) -> None:
        await self._nodes.stop_kubelet(self.node_name)

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
