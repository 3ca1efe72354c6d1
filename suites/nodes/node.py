"""A node with its control plane, and its pods, for other people's tests."""

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from drahealth.fakes.cluster.api import (
    CLAIMS,
    DEVICE_CLASSES,
    KINDS,
    NAMESPACES,
    PODS,
    SLICES,
    ApiError,
    Kind,
    ListWatch,
    Object,
)
from drahealth.fakes.cluster.mirror import PodWatch, after
from drahealth.fakes.control.fake_options import DriverControl
from drahealth.fakes.control.remote import RemoteDriver
from drahealth.fakes.hardware.device_plugin import FakeDevicePlugin
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.fakes.inventory.devices import Inventory
from drahealth.fakes.waiting import in_background, poll
from drahealth.manager.profile import Profile
from drahealth.proto.clock import SYSTEM_CLOCK, Clock
from drahealth.proto.events import ContainerSeen, StatusSeen
from drahealth.proto.events.text import format_event
from drahealth.proto.values import Health, ResourceHealth
from drahealth.suites.errors import HarnessError
from drahealth.suites.story import manifests
from drahealth.suites.targets.registry import Launch
from drahealth.suites.targets.target import BELONGS, LocalTarget

# How many devices a DRA driver has on a node, and how many of them are free.

_PUBLISH_LIMIT = 5.0
"""Seconds for a driver to publish a change of its devices in ResourceSlices."""
_INTERVAL = 0.1


@dataclass(frozen=True, slots=True)
class DeviceSupply:
    """The devices of one driver in the ResourceSlices of a node, and those that claims have."""

    driver: str
    devices: frozenset[tuple[str, str]]
    """Each with its pool and its name."""
    allocated: frozenset[tuple[str, str]]
    several_times: bool
    """Whether several claims can have the same device."""

    @classmethod
    async def of(cls, api: ListWatch, driver: str, node: str) -> "DeviceSupply":
        """What the API server has now. Raises ApiError."""
        slices = [found for found in await api.list(SLICES) if _is_for(found["spec"], driver, node)]
        newest = {
            pool: max(_generation(found) for found in slices if _pool(found) == pool) for pool in map(_pool, slices)
        }
        current = [found for found in slices if _generation(found) == newest[_pool(found)]]
        listed = [(_pool(found), device) for found in current for device in found["spec"].get("devices") or ()]
        allocated = {result for claim in await api.list(CLAIMS) for result in _results(claim, driver)}
        devices = frozenset((pool, device["name"]) for pool, device in listed)
        several = any(device.get("allowMultipleAllocations") for _, device in listed)
        return cls(driver, devices, frozenset(allocated) & devices, several)

    def allows(self, count: int) -> bool:
        """Whether a Pod can have this number of devices, now or after the end of other Pods. True if it is unknown."""
        return not self.devices or self.several_times or count <= len(self.devices)

    def problem(self, count: int) -> str:
        """Why a Pod waits for this number of devices, and what to do. Empty if there are enough."""
        has = f"driver {self.driver} has {_plural(len(self.devices))} on this node"
        if self.several_times or count <= len(self.devices) - len(self.allocated):
            return ""
        if count <= len(self.devices):
            return (
                f"{has}, and other claims have {len(self.allocated)}; delete their Pods, or add a driver for this Pod"
            )
        return f"{has}, and the Pod needs {count}; add a driver that has more, such as `add_driver({_names(count)})`"


async def until_enough(api: ListWatch, driver: str, node: str, count: int, timeout: float | None) -> None:
    """Waits while the driver publishes fewer devices. Raises TimeoutError if the Pod can never run, ApiError."""
    limit = _PUBLISH_LIMIT if timeout is None else min(timeout, _PUBLISH_LIMIT)

    async def is_enough() -> bool:
        return (await DeviceSupply.of(api, driver, node)).allows(count)

    if not await poll(is_enough, _INTERVAL, limit):
        supply = await DeviceSupply.of(api, driver, node)
        raise TimeoutError(f"waited {limit:g} s for ResourceSlices: {supply.problem(count)}")


def _names(count: int) -> str:
    names = [f"gpu-{number}" for number in range(count)]
    return str(names) if count < 4 else f"['gpu-0', ..., '{names[-1]}']"


def _plural(count: int) -> str:
    return f"{count} device" + ("" if count == 1 else "s")


def _is_for(spec: Object, driver: str, node: str) -> bool:
    return bool(spec["driver"] == driver and spec.get("nodeName", node) == node)


def _pool(found: Object) -> str:
    return str(found["spec"]["pool"]["name"])


def _generation(found: Object) -> int:
    return int(found["spec"]["pool"]["generation"])


def _results(claim: Object, driver: str) -> Iterator[tuple[str, str]]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    for result in (allocation.get("devices") or {}).get("results") or ():
        if result["driver"] == driver and not result.get("adminAccess"):
            yield result["pool"], result["device"]


class LocalConfiguration(Protocol):
    """The configuration of a target on this machine (`definition.Configuration`)."""

    def make(self, launch: Launch) -> LocalTarget: ...


# What an API client sees of the pods on a node, and waiting for it.

START_LIMIT = 30.0
"""Seconds for the start of a Pod, also on a target whose windows are shorter: the machine can be busy."""
_PAUSE = 0.05
"""Seconds until an ended watch is opened again."""


class PodStatuses:
    """The statuses of all pods on a running target, while `run` runs."""

    def __init__(self, target: LocalTarget) -> None:
        self.target = target
        self.all: list[StatusSeen] = []
        """All different statuses until now; the newest status is the last one."""
        self._watch = PodWatch(target.api, self._saw, again=after(_PAUSE))
        self.run = self._watch.run

    def exists(self, pod_uid: str) -> bool:
        """The pod has a status and is not deleted."""
        return pod_uid in self._watch.statuses

    @property
    def status_timeout(self) -> float:
        """The longest time in seconds that a change may need to show: one sync of the pod and a margin."""
        return self.target.windows["resync"]

    @property
    def start_timeout(self) -> float:
        """The longest time in seconds that a pod may need to start or to go."""
        return max(self.target.windows["start"], START_LIMIT)

    async def until(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Wait until it is true, looking again at each status; False after `timeout` seconds.

        Raises HarnessError if a process of the target has died.
        """
        if await self._watch.changes.until_within(condition, timeout, SYSTEM_CLOCK):
            return True
        self.target.check()
        return False

    def _saw(self, pod: Object, status: StatusSeen | None) -> None:
        if status:
            self.all.append(status)


@contextmanager
def naming_a_stopped_node(target: LocalTarget) -> Iterator[None]:
    """An unavailable API server of a node that has stopped is a HarnessError with the name of the node and a hint."""
    try:
        yield
    except ApiError as error:
        if error.reason == "ServiceUnavailable":
            try:
                target.check()
            except HarnessError as stopped:
                raise stopped from None  # without the error of the connection
        raise


def timed_out(expected: str, seconds: float, seen: str) -> TimeoutError:
    """The error of a wait: what was expected for how long, and what was seen last."""
    return TimeoutError(f"expected within {seconds:g} s: {expected}; last seen: {seen}")


# A pod of a public node: its statuses as an API client sees them, and waiting for what they show.


class Pod:
    """A pod on a node. Timeouts are in seconds; by default the longest that a correct kubelet needs."""

    def __init__(self, statuses: PodStatuses, obj: Object) -> None:
        self._all = statuses
        self.name: str = obj["metadata"]["name"]
        self.namespace: str = obj["metadata"]["namespace"]
        self.uid: str = obj["metadata"]["uid"]

    @property
    def statuses(self) -> list[StatusSeen]:
        """All different statuses until now; the newest status is the last one."""
        return [status for status in self._all.all if status.uid == self.uid]

    @property
    def status(self) -> StatusSeen | None:
        """The newest status; None before the first status arrives."""
        return next(reversed(self.statuses), None)

    def devices(self) -> list[ResourceHealth]:
        """The devices in the newest status, each with its resource ID, health and message."""
        return list(dict.fromkeys(_devices(self.status))) if self.status else []

    @property
    def device(self) -> str:
        """The name of the only device of the Pod, such as `gpu-0`. Raises ValueError if it has several or none."""
        names = list(dict.fromkeys(_name(device.resource_id) for device in self.devices()))
        if len(names) != 1:
            raise ValueError(f"pod {self.name} must have one device, got {', '.join(names) or 'none'}")
        return names[0]

    async def wait_for_health(
        self, device: str, health: Health | str, *, message: str | None = None, timeout: float | None = None
    ) -> None:
        """Wait until every running container that has the device shows this health.

        `device` is its name, such as `gpu-0`, or its whole resource ID. `message` is a shell pattern, such as
        `XID 79*`; "" means no message, None means any. Raises ValueError for an unknown health, and TimeoutError with
        the status that was seen last.
        """
        wanted = Health(health)

        def shown(status: StatusSeen) -> bool:
            found = [d for d in _devices(status) if device in (d.resource_id, _name(d.resource_id))]
            return bool(found) and all(d.health is wanted and _fits(d.message, message) for d in found)

        about = f"{device} {wanted}" + ("" if message is None else f" {message!r}")
        await self.wait_until(shown, f"shows {about}", timeout=timeout)

    async def wait_running(self, *, timeout: float | None = None) -> None:
        """Wait until all containers run. Raises TimeoutError with the status that was seen last."""

        def running(status: StatusSeen) -> bool:
            return status.phase == "Running" and all(c.state == "running" for c in status.containers)

        await self.wait_until(running, "is running", timeout=self._all.start_timeout if timeout is None else timeout)

    async def wait_until(
        self, condition: Callable[[StatusSeen], bool], expected: str, *, timeout: float | None = None
    ) -> None:
        """Wait until `condition` is true for the newest status. Raises TimeoutError: pod `expected`, and what was seen.

        `expected` completes the sentence "pod NAME ...", such as "is Failed".
        """

        def true() -> bool:
            return self.status is not None and condition(self.status)

        limit = self._all.status_timeout if timeout is None else timeout
        if not await self._all.until(true, limit):
            seen = format_event(self.status).strip(" :") if self.status else "no status"
            raise timed_out(f"pod {self.name} {expected}", limit, seen)

    async def exit(self, code: int = 0, *, container: str | None = None) -> None:
        """End a running container with this exit code; without a name, all running containers."""
        for found in self.status.containers if self.status else ():
            if found.state == "running" and container in (None, found.name):
                await self._all.target.end_container(self.uid, found.name, code)

    async def delete(self, *, timeout: float | None = None) -> None:
        """Delete the pod and wait until it is gone. Its drivers must run. Raises TimeoutError, ApiError."""
        with naming_a_stopped_node(self._all.target):
            await self._all.target.api.delete(PODS, self.name, self.namespace)
        await self.wait_deleted(timeout=timeout)

    async def wait_deleted(self, *, timeout: float | None = None) -> None:
        """Wait until a client, such as your controller, has deleted the Pod. Its drivers must run.

        Raises TimeoutError.
        """
        limit = self._all.start_timeout if timeout is None else timeout
        if not await self._all.until(lambda: not self._all.exists(self.uid), limit):
            raise timed_out(f"pod {self.name} is gone", limit, "the pod; the driver of its devices must run")

    async def object(self) -> Object:
        """The Pod object as the API server has it now. Raises ApiError."""
        with naming_a_stopped_node(self._all.target):
            return await self._all.target.api.get(PODS, self.name, self.namespace)


def _devices(status: StatusSeen) -> list[ResourceHealth]:
    """Every entry of a device, but for containers that have terminated, whose last status stays."""

    def lives(container: ContainerSeen) -> bool:
        return container.state != "terminated"

    containers = filter(lives, (*status.init_containers, *status.containers))
    entries = [*(entry for container in containers for entry in container.resources or ()), *(status.resources or ())]
    return [device for entry in entries for device in entry.resources]


def _name(resource_id: str) -> str:
    """The name in `driver/pool/device`, in the CDI ID `vendor/class=device`, or in a device plugin's plain ID."""
    return resource_id.rpartition("/")[2].rpartition("=")[2]


def _fits(message: str, pattern: str | None) -> bool:
    return pattern is None or fnmatchcase(message, pattern)


# A node with its control plane, for other people's tests: entered with `async with`, nothing stays behind.

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
            self._pods = PodStatuses(await self._open(stack))
            await stack.enter_async_context(in_background(self._pods.run(), f"statuses of {self.name}"))
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

    async def _open(self, stack: AsyncExitStack) -> LocalTarget:
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
        """Run a pod with one container that has this number of devices of this node, and wait until it runs.

        `driver` is a fake, also that of a running node, the name of a DRA driver, or the name of an extended resource
        (the one with a slash). Raises TimeoutError if the Pod does not run, at once if the driver has too few devices.
        """
        owner, name = _owner(driver), f"pod-{next(self._numbers)}"
        workload = self._target.workload
        if "/" in owner:
            pod = manifests.pod(self.namespace, name, {"main": ()}, {}, workload, limits={owner: devices})
            return await self.run_pod(self._placed(pod), timeout=timeout)
        await self._create_once(DEVICE_CLASSES, manifests.device_class(owner))
        await until_enough(self.api, owner, self.name, devices, timeout)
        claim = manifests.claim(self.namespace, name, {"device": (owner, devices)})
        # The kubelets of some releases show only claims from templates; others only those whose names are alike.
        templates = self.profile.claims_shown == "listed"
        await self.create(manifests.template(claim) if templates else claim)
        pod = manifests.pod(self.namespace, name, {"main": [(name, None)]}, {name: name}, workload, templates=templates)
        try:
            return await self.run_pod(self._placed(pod), timeout=timeout)
        except TimeoutError as error:
            supply = await DeviceSupply.of(self.api, owner, self.name)
            if problem := supply.problem(devices):
                raise TimeoutError(f"{error}; {problem}") from None
            raise

    @property
    def statuses(self) -> list[StatusSeen]:
        """All different statuses of all Pods until now; the newest status is the last one."""
        return list(self._seen.all)

    # -- the kubelet and time

    async def restart_kubelet(self) -> None:
        """Kill the kubelet and start it again with its files. Containers keep running.

        Returns when the node is Ready.
        """
        await self._target.restart_kubelet()

    async def advance_time(self, seconds: float) -> None:
        """Advance the time of the node and its fakes. The reference does not wait; a real kubelet does."""
        await self._target.advance_time(seconds)

    def _placed(self, pod: Object) -> Object:
        """The pod for this node; as it is if the cluster has no other node."""
        return pod

    @property
    def _seen(self) -> PodStatuses:
        """Raises RuntimeError outside of `async with`."""
        if self._pods is None:
            raise RuntimeError(f"{type(self).__name__} is not running; enter it first: async with node: ...")
        return self._pods

    @property
    def _target(self) -> LocalTarget:
        return self._seen.target

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
