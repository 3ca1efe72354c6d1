"""A node of a cluster, with the fake drivers in a Pod on it: what the targets kind and cluster share."""

import asyncio
import fcntl
import os
import re
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from drahealth.fakes.cluster.api import DEVICE_CLASSES, NAMESPACES, PODS, SLICES, Api, ApiError, ControlPlaneApi, Object
from drahealth.fakes.cluster.api import Kind as ObjectKind
from drahealth.fakes.cluster.kube_client import KubeClient
from drahealth.fakes.cluster.kube_connection import execute
from drahealth.fakes.control.fake_options import DriverControl, DriverOptions, PluginControl, PluginOptions
from drahealth.fakes.control.remote import RemoteHost
from drahealth.manager.profile import Profile
from drahealth.proto.events import Observe, Record
from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.drivers import RemoteDrivers
from drahealth.suites.targets.pods import KUBELET_DIR, NAMESPACE
from drahealth.suites.targets.pods.deployment import (
    SERVICE_ACCOUNTS,
    WORKLOAD,
    delete,
    host_in,
    why_gone,
)
from drahealth.suites.targets.registry import SharedFile
from drahealth.suites.targets.run_directory import lock
from drahealth.suites.targets.target import BELONGS, Opened, Placement, Window

# A lock on a cluster across processes: shared by many scenarios, or exclusive for one that disrupts the cluster.
#
# It uses two lock files. `users` is held shared or exclusive. Before it every process takes `queue`, one after the
# other. So a process that waits for the exclusive lock is not overtaken by new shared ones.

_EVERY = 0.02
"""Seconds between attempts."""


class ClusterLock:
    """The lock of one process; all processes that share the cluster use the same `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: int | None = None

    async def enter(self, *, alone: bool) -> None:
        """Takes the lock: exclusive if `alone`. Raises RuntimeError if this process holds it."""
        if self._held is not None:
            raise RuntimeError("this process holds the lock")
        queue = self._open("queue")
        try:
            await lock(queue, fcntl.LOCK_EX, _EVERY)
            users = self._open("users")
            try:
                await lock(users, fcntl.LOCK_EX if alone else fcntl.LOCK_SH, _EVERY)
            except BaseException:
                os.close(users)
                raise
            self._held = users
        finally:
            os.close(queue)

    def leave(self) -> None:
        """Releases the lock; harmless if it is released."""
        if self._held is not None:
            os.close(self._held)
        self._held = None

    def _open(self, name: str) -> int:
        return os.open(self._folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


# What a run that was killed has left in a cluster.


async def tidy(api: Api, labels: Mapping[str, str] = BELONGS) -> None:
    """Deletes the namespaces, DeviceClasses and ResourceSlices of scenarios, with these labels. Raises ApiError.

    Their pods are deleted without a grace period: without their drivers a kubelet would never finish them.
    """
    for namespace in await labelled(api, NAMESPACES, labels):
        for pod in await api.list(PODS, namespace):
            await delete(api, PODS, pod["metadata"]["name"], namespace, grace=0)
        await delete(api, NAMESPACES, namespace, grace=0)
    for kind in (DEVICE_CLASSES, SLICES):
        for name in await labelled(api, kind, labels):
            await delete(api, kind, name, grace=0)


async def labelled(api: Api, kind: ObjectKind, labels: Mapping[str, str]) -> dict[str, str]:
    """The uids by the names of the objects with these labels. Raises ApiError."""
    found = (one["metadata"] for one in await api.list(kind))
    return {one["name"]: one["uid"] for one in found if labels.items() <= (one.get("labels") or {}).items()}


# The description of nodes that are ready for scenarios, as plain data for the workers of a distributed run.

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s|us|µs|ns)")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


@dataclass(frozen=True, kw_only=True)
class PreparedNodes:
    """Nodes that are ready for scenarios."""

    folder: str
    """A folder for the lock files of the processes that share the cluster."""
    kubeconfig: str
    context: str | None = None
    """The context of the kubeconfig; None for its current one."""
    namespace: str = NAMESPACE
    """That of the driver's pods."""
    pods: dict[str, str]
    """The name of the fake driver's pod on each node that accepts workload."""
    image: str
    """The image of the driver's pods and of the workload."""
    sync_frequency: float
    """The `syncFrequency` of the kubelets, in seconds."""

    def node_for(self, worker: int) -> str:
        """The node for the scenarios of a worker of a distributed run."""
        names = sorted(self.pods)
        return names[worker % len(names)]


P = TypeVar("P", bound=PreparedNodes)
P_co = TypeVar("P_co", bound=PreparedNodes, covariant=True)


class Provider(Protocol[P_co]):
    """Gives a target its nodes."""

    async def up(self) -> P_co:
        """The nodes, ready. Raises HarnessError."""

    async def down(self) -> None:
        """Takes down what `up` made."""


class Shared(Generic[P]):
    """Implements `registry.SharedEnvironment`: the nodes of a distributed run, made by its controller."""

    def __init__(self, provider: Provider[P]) -> None:
        self._provider = provider

    async def up(self) -> Mapping[str, Any]:
        return asdict(await self._provider.up())

    async def down(self) -> None:
        await self._provider.down()


class Joined(Generic[P]):
    """The nodes that the controller of a distributed run made."""

    def __init__(self, file: SharedFile, kind: type[P]) -> None:
        self._file = file
        self._kind = kind

    async def up(self) -> P:
        return self._kind(**self._file.read())

    async def down(self) -> None:
        """Nothing: the controller takes it down."""


def seconds(duration: str) -> float:
    """The seconds of a duration of Go, such as 1m0s. Raises ValueError."""
    parts = _DURATION.findall(duration)
    if not parts or "".join(number + unit for number, unit in parts) != duration:
        raise ValueError(f"{duration!r} is no duration")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


# A node of a cluster.

_CDI = "/var/run/cdi"


class PodTarget(Generic[P]):
    """The parts of `target.Target` that need only the API server and the pod of the fake drivers on the node.

    `worker` is the number of this process among those that share the cluster.
    """

    kubelet_dir = Path(KUBELET_DIR)

    def __init__(self, provider: Provider[P], profile: Profile, *, worker: int = 0) -> None:
        self.profile = profile
        self.windows: Mapping[Window, float] = {}
        self._provider = provider
        self._worker = worker
        self._node = ""
        self._prepared: P | None = None
        self._client: KubeClient | None = None
        self._host: RemoteHost | None = None
        self._lock: ClusterLock | None = None

    async def start(self) -> None:
        self._prepared = nodes = await self._provider.up()
        self.windows = {"push": 6.0, "resync": nodes.sync_frequency * 1.5 + 6, "start": 60.0, "restart": 90.0}
        self._lock = ClusterLock(Path(nodes.folder))
        self._client = await KubeClient.from_kubeconfig(nodes.kubeconfig, nodes.context)
        self.settle(nodes.node_for(self._worker))

    def settle(self, node: str) -> None:
        """Uses this node from now on. Connects to the pod of its drivers with the first command."""
        client, nodes = self._api, self._started
        if node not in nodes.pods:
            raise HarnessError(f"the fake driver has no pod on the node {node}", "check that the node is Ready")
        pod, namespace = nodes.pods[node], nodes.namespace
        self._node = node
        self._host = host_in(client, namespace, pod, lambda: why_gone(client, pod, namespace))
        self._drivers = RemoteDrivers(self._host)

    async def leave_node(self) -> None:
        """Ends the connection to the pod of the drivers."""
        if self._host:
            await self._host.close()

    async def stop(self) -> None:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._provider.down)
            if self._client:
                stack.push_async_callback(self._client.close)
            stack.push_async_callback(self.leave_node)

    @property
    def registry_dir(self) -> Path:
        return self.kubelet_dir / "plugins_registry"

    @property
    def plugins_dir(self) -> Path:
        return self.kubelet_dir / "plugins"

    @property
    def device_plugins_dir(self) -> Path:
        return self.kubelet_dir / "device-plugins"

    @property
    def node_name(self) -> str:
        assert self._node, "the target is not started"
        return self._node

    @property
    def workload(self) -> Mapping[str, Any]:
        return {"image": self._started.image, "command": ["sh", "-c", WORKLOAD]}

    @property
    def placement(self) -> Placement:
        return Placement()

    @property
    def api(self) -> ControlPlaneApi:
        return self._api

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
        """Nothing: only the API server of a cluster that drahealth made shows writes."""

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

    async def end_container(self, pod_uid: str, container: str, code: int) -> None:
        found = [pod["metadata"] for pod in await self._api.list(PODS) if pod["metadata"]["uid"] == pod_uid]
        if not found:
            raise ApiError(404, "NotFound", f"there is no pod with the uid {pod_uid}")
        tell = ("sh", "-c", f"echo {code} > /tmp/exit")
        await execute(self._api.connection, found[0]["namespace"], found[0]["name"], tell, container=container)

    async def add_static_pod(self, manifest: Object) -> None:
        raise HarnessError("this target cannot run static pods", "use the kubelet target")

    async def remove_static_pod(self, manifest: Object) -> None:
        """Nothing: there is none."""

    def cdi_devices(self, pod_uid: str, container: str) -> tuple[str, ...]:
        raise HarnessError("this target cannot read the CDI devices of a container", "use another target")

    def check(self) -> None:
        if self._host and self._host.problem:
            raise HarnessError(
                self._host.problem, f"see the pods and events of the namespace {self._started.namespace}"
            )

    @property
    def _api(self) -> KubeClient:
        assert self._client, "the target is not started"
        return self._client

    @property
    def _started(self) -> P:
        assert self._prepared, "the target is not started"
        return self._prepared
