"""A node with its control plane, for other people's tests: entered with `async with`, nothing stays behind."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from drahealth.fakes.cluster.api import DEVICE_CLASSES, KINDS, NAMESPACES, PODS, ApiError, Kind, Object
from drahealth.fakes.cluster.list_watch import ListWatch
from drahealth.fakes.control.driver import DriverControl
from drahealth.fakes.control.remote import RemoteDriver
from drahealth.fakes.hardware.device_plugin import FakeDevicePlugin
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.fakes.inventory.devices import Inventory
from drahealth.manager.profile import Profile
from drahealth.proto.clock import Clock
from drahealth.proto.events import StatusSeen
from drahealth.suites.nodes.device_supply import DeviceSupply, until_enough
from drahealth.suites.nodes.node_target import LocalConfiguration, NodeTarget
from drahealth.suites.nodes.pod import Pod
from drahealth.suites.nodes.pod_statuses import PodStatuses, naming_a_stopped_node
from drahealth.suites.story import manifests
from drahealth.suites.targets.definition import Launch
from drahealth.suites.targets.target import BELONGS

_KINDS = {kind.kind: kind for kind in KINDS}
DEVICES = ("gpu-0", "gpu-1")
"""The devices of a driver that a test adds, if it names no others."""
DRIVER = "gpu.example.com"
_DEFAULT_NAMESPACE = "default"


class Node:
    """A kubelet, its control plane and a fake container runtime. Enter it with `async with`; it starts only once.

    Inside, drivers register in `registry_dir`, and pods run by `run_pod`. Afterwards no process, socket, folder or task
    is left, also after an exception.
    """

    def __init__(self, configuration: LocalConfiguration, *, namespace: str = _DEFAULT_NAMESPACE) -> None:
        """A node on the target of this configuration; ReferenceNode, LocalNode and RunningNode make it.

        `namespace` is created, if it is not `default`.
        """
        self.namespace = namespace
        """The namespace of objects whose manifest names none."""
        self._configuration = configuration
        self._pods: PodStatuses | None = None
        self._closing = AsyncExitStack()
        self._kubeconfig: Path | None = None
        self._created: list[tuple[Kind, Object]] = []
        self._numbers = count(1)

    async def __aenter__(self) -> Self:
        """Start all of it; return when the node is Ready. Raises HarnessError, ConfigurationError."""
        if self._pods:
            raise RuntimeError("the node is already running; enter it once")
        async with AsyncExitStack() as stack:
            pods = PodStatuses(await self._open(stack))
            stack.push_async_callback(pods.stop)
            pods.start()
            self._pods = pods
            try:
                await self._begin()
            except BaseException:
                self._pods = None
                raise
            self._closing = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._end(failed=kind is not None)
        finally:
            self._pods = None
            await self._closing.aclose()

    async def _open(self, stack: AsyncExitStack) -> NodeTarget:
        """The target, started. The stack stops it."""
        target = self._configuration.make(Launch())
        stack.push_async_callback(target.stop)
        await target.start()
        return target

    async def _begin(self) -> None:
        """The target runs."""
        if self.namespace != _DEFAULT_NAMESPACE:
            metadata = {"name": self.namespace, "labels": BELONGS, "annotations": dict(self._annotations)}
            await self.api.create(NAMESPACES, {"metadata": metadata})

    async def _end(self, *, failed: bool) -> None:
        """The target still runs."""

    @property
    def _annotations(self) -> Mapping[str, str]:
        """Those of the namespace."""
        return {}

    # -- what is where

    @property
    def name(self) -> str:
        """The name of the Node object."""
        return self._target.node_name

    @property
    def profile(self) -> Profile:
        """The profile of the reference, or for a real kubelet the profile of its release."""
        return self._target.profile

    @property
    def api(self) -> ListWatch:
        """A client of the API server."""
        return self._target.api

    @property
    def clock(self) -> Clock:
        """The clock of the node and its fakes."""
        return self._target.clock

    @property
    def registry_dir(self) -> Path:
        """The directory `plugins_registry` of the kubelet, in which drivers create their registration sockets."""
        return self._target.registry_dir

    @property
    def plugins_dir(self) -> Path:
        """The directory `plugins` of the kubelet, in which drivers create their other sockets."""
        return self._target.plugins_dir

    @property
    def device_plugins_dir(self) -> Path:
        """The directory in which device plugins find `kubelet.sock`."""
        return self._target.device_plugins_dir

    async def kubeconfig(self) -> Path:
        """Path of a kubeconfig for other processes, such as a driver; the API server listens on loopback.

        Its default namespace is the namespace of the node object here. The file exists until the end.
        """
        path = await self._target.kubeconfig()
        if self.namespace == _DEFAULT_NAMESPACE:
            return path
        if self._kubeconfig is None:
            config = json.loads(path.read_bytes())
            for context in config["contexts"]:
                context["context"]["namespace"] = self.namespace
            folder = self._closing.enter_context(tempfile.TemporaryDirectory(prefix="drahealth-"))
            self._kubeconfig = Path(folder, "kubeconfig")
            self._kubeconfig.touch(mode=0o600)
            self._kubeconfig.write_text(json.dumps(config, indent=1), encoding="utf-8")
        return self._kubeconfig

    # -- drivers

    async def add_driver(
        self, devices: Sequence[str] | Inventory | None = None, **options: Any
    ) -> FakeDriver | RemoteDriver:
        """Start a fake driver with its DeviceClass, and wait until it is registered. It ends with the node object.

        The default devices are `gpu-0` and `gpu-1`. `options` are other fields of DriverOptions. Raises ValueError for
        invalid options, TimeoutError.
        """
        driver = FakeDriver.for_node(self, DEVICES if devices is None else devices, **{"name": DRIVER, **options})
        await self._closing.enter_async_context(driver)
        await self._create_once(DEVICE_CLASSES, manifests.device_class(driver.name))
        return driver

    # -- pods

    async def create(self, manifest: Mapping[str, Any]) -> Object:
        """Create an object from its manifest, and its namespace if this is missing; return the stored object.

        Raises ApiError if the API server rejects it, ValueError for a kind that is not supported here.
        """
        kind = _KINDS.get(manifest.get("kind", ""))
        if kind is None:
            raise ValueError(f"kind must be one of {', '.join(sorted(_KINDS))}, got {manifest.get('kind')!r}")
        if not kind.namespaced:
            return await self._create(kind, dict(manifest))
        metadata = {"namespace": self.namespace, **manifest.get("metadata", {})}
        await self._create_once(NAMESPACES, {"metadata": {"name": metadata["namespace"]}})
        return await self._create(kind, {**manifest, "metadata": metadata})

    async def run_pod(self, manifest: Mapping[str, Any], *, timeout: float | None = None) -> Pod:
        """Create a pod from its manifest and wait until its containers run. Raises ApiError, ValueError, TimeoutError.

        Other objects that it needs, such as a ResourceClaim, come from `create` before it.
        """
        if manifest.get("kind", "Pod") != "Pod":
            raise ValueError(f"kind must be Pod, got {manifest['kind']!r}; use create for other objects")
        pod = Pod(self._seen, await self.create({"apiVersion": PODS.api_version, "kind": PODS.kind, **manifest}))
        await pod.wait_running(timeout=timeout)
        return pod

    async def run_pod_with_device(
        self,
        driver: DriverControl | FakeDevicePlugin | str,
        devices: int = 1,
        *,
        timeout: float | None = None,
    ) -> Pod:
        """Run a pod with one container that has this number of devices, and wait until it runs.

        `driver` is a fake, also that of a running node, the name of a DRA driver, or the name of an extended resource
        (the one with a slash). Raises TimeoutError if the Pod does not run, at once if the driver has too few devices.
        """
        owner, name = _owner(driver), self._pod_name()
        image = self._target.workload_image
        if "/" in owner:
            pod = manifests.pod(self.namespace, name, {"main": ()}, {}, image, limits={owner: devices})
            return await self.run_pod(pod, timeout=timeout)
        await self._create_once(DEVICE_CLASSES, manifests.device_class(owner))
        await until_enough(self.api, owner, self.name, devices, timeout)
        claim = manifests.claim(self.namespace, name, {"device": (owner, devices)})
        # The kubelets of some releases show only claims from templates; others only those whose names are alike.
        templates = self.profile.claims_shown == "listed"
        await self.create(manifests.template(claim) if templates else claim)
        pod = manifests.pod(self.namespace, name, {"main": [(name, None)]}, {name: name}, image, templates=templates)
        try:
            return await self.run_pod(pod, timeout=timeout)
        except TimeoutError as error:
            supply = await DeviceSupply.of(self.api, owner, self.name)
            if problem := supply.problem(devices):
                raise TimeoutError(f"{error}; {problem}") from None
            raise

    @property
    def statuses(self) -> list[StatusSeen]:
        """All different statuses of all Pods until now; the newest status is the last one."""
        return self._seen.all()

    # -- the kubelet and time

    async def restart_kubelet(self) -> None:
        """Kill the kubelet and start it again with its files. Containers keep running.

        Returns when the node is Ready.
        """
        await self._target.restart_kubelet()

    async def advance_time(self, seconds: float) -> None:
        """Advance the time of the node and its fakes. The reference does not wait; a real kubelet does."""
        await self._target.advance_time(seconds)

    @property
    def _seen(self) -> PodStatuses:
        """Raises RuntimeError outside of `async with`."""
        if self._pods is None:
            raise RuntimeError(f"{type(self).__name__} is not running; enter it first: async with node: ...")
        return self._pods

    @property
    def _target(self) -> NodeTarget:
        return self._seen.target

    def _pod_name(self) -> str:
        return f"pod-{next(self._numbers)}"

    async def _create(self, kind: Kind, obj: Object) -> Object:
        with naming_a_stopped_node(self._target):
            created = await self.api.create(kind, obj)
        self._created.append((kind, created))
        return created

    async def _create_once(self, kind: Kind, obj: Object) -> None:
        try:
            await self._create(kind, obj)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise


def _owner(driver: DriverControl | FakeDevicePlugin | str) -> str:
    """The name of the driver, or of the extended resource."""
    if isinstance(driver, FakeDriver | RemoteDriver):
        return driver.name
    if isinstance(driver, FakeDevicePlugin):
        return driver.options.resource
    assert isinstance(driver, str), "another driver needs its name"
    return driver
