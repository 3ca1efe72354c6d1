"""A node of `drahealth up`, which another process owns, as the target of a public node."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import MappingProxyType

from drahealth.fakes.cluster.clients.kube_client import KubeClient
from drahealth.fakes.control.driver import DriverOptions
from drahealth.fakes.control.remote import RemoteHost
from drahealth.fakes.control.wire import LINE_LIMIT
from drahealth.manager.profile import KEP, Profile
from drahealth.proto.clock import SystemClock
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.targets.definition import Launch
from drahealth.suites.targets.target import Window
from drahealth.suites.targets.versions import profile_of
from drahealth.suites.up_command.drivers import drivers_settings
from drahealth.suites.up_command.nodes import SYNC_FREQUENCY
from drahealth.suites.up_command.paths import NodePaths
from drahealth.suites.up_command.state import ready

_START = 60.0
"""Seconds for the start of a Pod, which others may start at the same time."""


class RunningTarget:
    """Implements `node_target.NodeTarget`."""

    workload_image = "workload.example.com/gpu-job:1"
    windows: Mapping[Window, float] = MappingProxyType(
        {"push": 5.0, "resync": SYNC_FREQUENCY * 1.5 + 5, "start": _START, "restart": _START}
    )

    def __init__(self, name: str) -> None:
        self.node_name = name
        self.clock = SystemClock()
        self.profile: Profile = KEP
        self._client: KubeClient | None = None
        self._paths: NodePaths | None = None
        self._drivers: RemoteHost | None = None
        self._closing = AsyncExitStack()

    async def start(self) -> None:
        """Connects to the node, which must be Ready. Raises ConfigurationError, HarnessError."""
        folder, state = ready(self.node_name)
        self.profile = KEP if state.reference else profile_of(state.kubernetes)
        self._paths = NodePaths.of(folder.path, reference=state.reference)
        async with AsyncExitStack() as stack:
            self._client = await KubeClient.from_kubeconfig(str(self._paths.kubeconfig))
            stack.push_async_callback(self._client.close)
            self._drivers = RemoteHost(
                lambda: asyncio.open_unix_connection(str(folder.socket), limit=LINE_LIMIT),
                gone=f"node {self.node_name} has stopped; start it with `drahealth up --name {self.node_name}`",
            )
            stack.push_async_callback(self._drivers.close)
            self._closing = stack.pop_all()

    async def stop(self) -> None:
        """Closes the connections. The node continues."""
        await self._closing.aclose()

    @property
    def api(self) -> KubeClient:
        assert self._client, "the target is not started"
        return self._client

    @property
    def drivers(self) -> RemoteHost:
        """The drivers of the node itself."""
        assert self._drivers, "the target is not started"
        return self._drivers

    @property
    def first_driver(self) -> DriverOptions:
        """The options of the first driver in the inventory of the node. Raises ConfigurationError if it has none."""
        folder, _ = ready(self.node_name)
        drivers = drivers_settings(folder, self._started, folder.inventory, None).drivers
        if not drivers:
            raise ConfigurationError(
                f"the inventory of node {self.node_name} has no DRA driver, only device plugins",
                "start the node with an inventory that has `devices`",
            )
        return drivers[0]

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

    async def advance_time(self, seconds: float) -> float:
        await asyncio.sleep(seconds)
        return 0.0

    async def restart_kubelet(self) -> None:
        raise self._unsupported("restart the kubelet")

    async def end_container(self, pod_uid: str, container: str, code: int) -> None:
        raise self._unsupported("end a container")

    def check(self) -> None:
        ready(self.node_name)

    @property
    def _started(self) -> NodePaths:
        assert self._paths, "the target is not started"
        return self._paths

    def _unsupported(self, what: str) -> HarnessError:
        return HarnessError(f"a test cannot {what} of node {self.node_name}", "use LocalNode or ReferenceNode")


class RunningConfiguration:
    """Makes the target of a named node."""

    def __init__(self, name: str) -> None:
        self._name = name

    def make(self, launch: Launch) -> RunningTarget:
        """The target, not started."""
        return RunningTarget(self._name)
