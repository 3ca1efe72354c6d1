"""A node of `drahealth up` for tests: alone, or shared with others."""

import asyncio
import json
import secrets
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import astuple, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from drahealth.fakes.cluster.api import NAMESPACES, PODS, ApiError, Kind, Object
from drahealth.fakes.cluster.kube_client import KubeClient
from drahealth.fakes.control.fake_options import DriverControl, DriverOptions
from drahealth.fakes.control.remote import RemoteDriver, RemoteHost
from drahealth.fakes.control.socket_path import DEFAULT_NODE
from drahealth.fakes.control.wire import LINE_LIMIT
from drahealth.fakes.hardware.devices import driver_options
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.fakes.hardware.registered import names_of
from drahealth.fakes.inventory.devices import Inventory
from drahealth.fakes.waiting import poll
from drahealth.manager.profile import KEP, Profile
from drahealth.proto.clock import SystemClock
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.nodes.node import DRIVER, LocalConfiguration, Node, timed_out
from drahealth.suites.targets.registry import Launch
from drahealth.suites.targets.target import LocalTarget, Window
from drahealth.suites.targets.versions import profile_of
from drahealth.suites.up_command.node_folder import NodePaths, ProcessIdentity, ready
from drahealth.suites.up_command.nodes import SYNC_FREQUENCY
from drahealth.suites.up_command.served_drivers import drivers_settings

# A node of `drahealth up`, which another process owns, as the target of a public node.

_START = 60.0
"""Seconds for the start of a Pod, which others may start at the same time."""


class RunningTarget:
    """Implements `target.LocalTarget`."""

    workload: Mapping[str, Any] = {"image": "workload.example.com/gpu-job:1"}
    windows: Mapping[Window, float] = MappingProxyType(
        {"push": 5.0, "resync": SYNC_FREQUENCY * 1.5 + 5, "start": _START, "restart": _START}
    )

    def __init__(self, name: str) -> None:
        self.node_name = name
        self.clock = SystemClock()
        self.profile: Profile = KEP
        self.has_other_nodes = False
        """Whether the control plane has other nodes (`drahealth up --nodes`)."""
        self._client: KubeClient | None = None
        self._paths: NodePaths | None = None
        self._drivers: RemoteHost | None = None
        self._closing = AsyncExitStack()

    async def start(self) -> None:
        """Connects to the node, which must be Ready. Raises ConfigurationError, HarnessError."""
        folder, state = ready(self.node_name)
        self.profile = KEP if state.reference else profile_of(state.kubernetes)
        self.has_other_nodes = state.nodes > 1
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


# A node that others use at the same time: each user has a namespace and drivers of its own, and removes them.

PROCESS = "drahealth.example.com/process"
"""The annotation of a namespace with the process that removes it. A namespace that is kept has none."""
_LONGEST_NAME = 23
"""Bytes of a driver's name for which there is room in the path of its registration socket (`up_command.folder`)."""
_GRACE = 1
"""Seconds that Pods have to end."""
_INTERVAL = 0.1


def unique(start: str) -> str:
    """A name for a namespace, which begins with `start`."""
    return f"{start}-{secrets.token_hex(3)}"


def driver_name(base: str, namespace: str) -> str:
    """The name of a driver that belongs to the namespace: gpu-1a2b3c.example.com for gpu.example.com."""
    first, _, rest = base.partition(".")
    number = namespace.rpartition("-")[2]
    name = f"{first}-{number}.{rest}"
    return name if len(name) <= _LONGEST_NAME else f"gpu-{number}.example.com"


class SharedNode(Node):
    """A part of a node: a namespace and drivers. At the end they are removed, with all that is in the namespace."""

    def __init__(self, configuration: LocalConfiguration, *, namespace: str = "", keep_failed: bool = False) -> None:
        super().__init__(configuration, namespace=namespace or unique("test"))
        self._keep_failed = keep_failed
        self._is_kept = False

    async def keep(self) -> None:
        """Leave the namespace and its drivers at the end. Deleting the namespace then removes them."""
        found = await self.api.get(NAMESPACES, self.namespace)
        found["metadata"].get("annotations", {}).pop(PROCESS, None)
        await self.api.replace(NAMESPACES, found)
        self._is_kept = True

    @property
    def is_kept(self) -> bool:
        """Whether the namespace and its drivers stay at the end."""
        return self._is_kept

    @property
    def _annotations(self) -> Mapping[str, str]:
        return {PROCESS: json.dumps(astuple(ProcessIdentity.own()))}

    async def _begin(self) -> None:
        for namespace in await self.api.list(NAMESPACES):
            if _is_orphan(namespace):  # its process was killed
                await self._delete_namespace(namespace["metadata"]["name"])
        await super()._begin()

    async def _end(self, *, failed: bool) -> None:
        """Pods go first, then the drivers, which Pods need to end. The namespace goes with everything else."""
        if failed and self._keep_failed and not self._is_kept:
            await self.keep()
        if self._is_kept:
            return
        try:
            await self._delete_namespace(self.namespace)
            await self._until_no_pods()
        finally:
            await self._end_drivers()
            for kind, obj in reversed(self._created):
                if obj["metadata"].get("namespace") != self.namespace:
                    await self._delete(kind, obj)

    async def _end_drivers(self) -> None:
        """Those that another process runs."""

    async def _delete_namespace(self, name: str) -> None:
        """Nothing new can be created in the namespace from then on."""
        await self._delete(NAMESPACES, {"metadata": {"name": name}})
        for pod in await self.api.list(PODS, name):
            await self._delete(PODS, pod, _GRACE)

    async def _until_no_pods(self) -> None:
        """Raises TimeoutError with the Pods that are left."""
        left = list[Object]()

        async def gone() -> bool:
            left[:] = await self.api.list(PODS, self.namespace)
            return not left

        limit = self._seen.start_timeout
        if not await poll(gone, _INTERVAL, limit):
            names = ", ".join(pod["metadata"]["name"] for pod in left)
            raise timed_out(f"the Pods of namespace {self.namespace} are gone", limit, names)

    async def _delete(self, kind: Kind, obj: Object, grace: int | None = None) -> None:
        try:
            await self.api.delete(kind, obj["metadata"]["name"], obj["metadata"].get("namespace"), grace)
        except ApiError as error:
            if error.status != 404:  # the test has deleted it
                raise


class PartOfNode(SharedNode):
    """A part of a node that runs in this process."""

    def __init__(self, node: Node, *, namespace: str = "") -> None:
        super().__init__(node._configuration, namespace=namespace)
        self._node = node

    async def add_driver(
        self, devices: Sequence[str] | Inventory | None = None, **options: Any
    ) -> FakeDriver | RemoteDriver:
        return await super().add_driver(devices, **{"name": driver_name(DRIVER, self.namespace), **options})

    async def _open(self, stack: AsyncExitStack) -> LocalTarget:
        return self._node._target


def _is_orphan(namespace: Object) -> bool:
    """Whether the process that removes the namespace has ended without doing so."""
    metadata = namespace["metadata"]
    text = (metadata.get("annotations") or {}).get(PROCESS)
    if not text or "deletionTimestamp" in metadata:
        return False
    with suppress(ValueError, TypeError):  # not written by us
        return not ProcessIdentity(*json.loads(text)).runs()
    return False


# A node of `drahealth up` as a node for tests.

HOSTNAME = "kubernetes.io/hostname"
"""The label that a kubelet sets to the name of its node. Source: Kubernetes documentation, "Well-Known Labels"."""


class RunningNode(SharedNode):
    """A node that `drahealth up` has started. Entering connects to it; afterwards it continues.

    It has a namespace of its own, and the drivers of `add_driver`. At the end they are removed, with everything in the
    namespace, and with the other objects that the test created. `restart_kubelet` and `Pod.exit` raise HarnessError.
    """

    def __init__(self, name: str = DEFAULT_NODE, *, namespace: str = "", keep_failed: bool = False) -> None:
        """`name` is that of `drahealth up --name`. Raises ConfigurationError for an invalid name when entered.

        `namespace` is the name of the new namespace; default: a unique name. With `keep_failed`, an exception leaves
        the namespace and its drivers.
        """
        super().__init__(RunningConfiguration(name), namespace=namespace, keep_failed=keep_failed)
        self._added: list[RemoteDriver] = []

    async def driver(self, name: str = "") -> DriverControl:
        """The driver with this name, on this node; without a name, the only driver of the node. Raises ControlFailed.

        All tests on the node share this driver. `add_driver` makes a driver for one test.
        """
        return await self._running.drivers.use(name)

    async def add_driver(
        self, devices: Sequence[str] | Inventory | None = None, **options: Any
    ) -> FakeDriver | RemoteDriver:
        """Add a driver for this test to the node, in the process of the node, and wait until it is registered.

        Its name is unique. The default devices are those of the first driver of the node. `options` are other fields of
        DriverOptions. Raises ControlFailed for invalid options, TimeoutError.
        """
        made = self._options_of(devices, options)
        driver = await self._running.drivers.add(made, self.namespace)
        self._added.append(driver)
        await driver.wait_registered()
        return driver

    def _options_of(self, devices: Sequence[str] | Inventory | None, options: dict[str, Any]) -> DriverOptions:
        first = self._running.first_driver
        name = options.pop("name", driver_name(first.name, self.namespace))
        given = {"name": name, "data_dir": str(Path(first.data_dir).with_name(name)), **options}
        if devices is None:
            return replace(first, **given)
        kept = {"node": first.node, "registry_dir": first.registry_dir, **given}
        if isinstance(devices, Inventory):
            return driver_options(devices, **kept)
        return DriverOptions(devices=names_of(devices), **kept)

    def _placed(self, pod: Object) -> Object:
        if not self._running.has_other_nodes:
            return pod
        return {**pod, "spec": {**pod["spec"], "nodeSelector": {HOSTNAME: self.name}}}

    async def _end_drivers(self) -> None:
        while self._added:
            await self._running.drivers.end(self._added.pop())

    @property
    def _running(self) -> RunningTarget:
        target = self._target
        assert isinstance(target, RunningTarget)
        return target
