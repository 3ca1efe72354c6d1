"""The half of the device manager for device plugins: it connects, lists, allocates, and shows their devices."""

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import grpc.aio

from drahealth.manager.allocations import (
    ALLOCATIONS_FILE,
    Allocation,
    Allocations,
    by_resource,
    choose,
    dump_allocations,
    grant_of,
    load_allocations,
)
from drahealth.manager.calls import Context, PluginCalls, malformed_received, next_stream, notify_each, path_text, spawn
from drahealth.manager.checkpoint import Checkpoint
from drahealth.manager.device_status import MAP_SLOTS, turned
from drahealth.manager.dra import Notify
from drahealth.manager.plugin import PluginError, describe_end
from drahealth.manager.registration import DIAL_LIMIT, Candidate, KubeletSocket, Refused, Socket
from drahealth.manager.resources import Resources
from drahealth.proto.clock import Clock
from drahealth.proto.events import (
    ListReceived,
    Observe,
    PluginDeregistered,
    PluginRegistered,
    PodsNotified,
    StreamClosed,
    StreamOpened,
    ignore,
)
from drahealth.proto.plain_messages import undecoded_list
from drahealth.proto.quoting import one_line
from drahealth.proto.services import (
    ALLOCATE,
    GET_OPTIONS,
    GET_PREFERRED_ALLOCATION,
    LIST_AND_WATCH,
    PRE_START_CONTAINER,
    VERSION,
    MalformedMessage,
)
from drahealth.proto.sockets import check_path, target
from drahealth.proto.values import (
    AdmissionError,
    Amount,
    DeviceNode,
    Grant,
    Mount,
    PluginDevice,
    PodClaims,
    ResourceHealth,
    ResourceStatus,
    is_extended_resource,
)

# One connected device plugin: its options, its list of devices, and the calls around a container's start.

API = f"{VERSION}.DevicePlugin"
"""The gRPC service of device plugins."""

CALL_LIMIT = 30.0
"""Seconds for each call. Kubelets use this limit for PreStartContainer, and none for Allocate."""

log = logging.getLogger(__name__)


class DevicePlugin:
    """A device plugin from registration until its list ends; then it must register again.

    Calls `on_list(devices)` for each list, and `on_end()` once, unless `close` ended it.
    """

    def __init__(
        self,
        resource: str,
        endpoint: Path,
        *,
        clock: Clock,
        on_list: Callable[[Sequence[PluginDevice]], None],
        on_end: Callable[[], None],
        observe: Observe = ignore,
    ) -> None:
        self.resource = resource
        self.endpoint = endpoint
        self._on_list = on_list
        self._on_end = on_end
        self._options = GET_OPTIONS.response()
        self._observe = observe
        self._channel = grpc.aio.insecure_channel(target(endpoint))
        self._call_plugin = PluginCalls(self._channel, clock, observe, endpoint, resource)
        self._watching: asyncio.Task[None] | None = None

    def __str__(self) -> str:
        return f"{one_line(self.resource)} at {one_line(self.endpoint.name)}"

    async def connect(self) -> None:
        """Connects to the plugin and reads its options. Raises PluginError; then the connection is closed."""
        try:
            async with asyncio.timeout(DIAL_LIMIT):
                await self._channel.channel_ready()
            self._options = await self._call(GET_OPTIONS, GET_OPTIONS.request(), "its options")
        except TimeoutError:
            await self.close()
            raise PluginError(f"device plugin {self}: no answer within {DIAL_LIMIT:g} s") from None
        except BaseException:
            await self.close()
            raise

    def watch(self) -> None:
        """Starts to read its list."""
        self._watching = spawn(self._watch(), f"list of device plugin {self}")

    async def close(self) -> None:
        """Ends the connection, without notifications."""
        task, self._watching = self._watching, None
        try:
            if task and task is not asyncio.current_task():
                task.cancel()
                await asyncio.wait([task])
        finally:
            await self._channel.close()

    async def allocate(self, devices: Sequence[str]) -> Grant:
        """The additions to a container with these devices. Raises PluginError."""
        request = ALLOCATE.request(container_requests=[{"devices_ids": devices}])
        answer = await self._call(ALLOCATE, request, "Allocate")
        if not answer.container_responses:
            raise PluginError(f"device plugin {self}: Allocate returned no response for the container")
        return _grant(answer.container_responses[0])

    async def preferred(self, available: Sequence[str], held: Sequence[str], count: int) -> tuple[str, ...]:
        """The devices that the plugin prefers, next to those that the pod holds, if it has a preference. Raises
        PluginError.
        """
        if not self._options.get_preferred_allocation_available:
            return ()
        wanted = {"available_deviceIDs": available, "must_include_deviceIDs": held, "allocation_size": count}
        request = GET_PREFERRED_ALLOCATION.request(container_requests=[wanted])
        answer = await self._call(GET_PREFERRED_ALLOCATION, request, "GetPreferredAllocation")
        return tuple(answer.container_responses[0].deviceIDs) if answer.container_responses else ()

    async def pre_start(self, devices: Sequence[str]) -> None:
        """Announces the start of a container with these devices, if the plugin requires it. Raises PluginError."""
        if self._options.pre_start_required:
            request = PRE_START_CONTAINER.request(devices_ids=devices)
            await self._call(PRE_START_CONTAINER, request, "PreStartContainer")

    @property
    def wants_pre_start(self) -> bool:
        return bool(self._options.pre_start_required)

    async def _watch(self) -> None:
        stream, endpoint = next_stream(), path_text(self.endpoint)
        self._observe(StreamOpened(self.resource, "", stream, API, endpoint))
        why, code = "ended by the manager", "CANCELLED"
        responses = LIST_AND_WATCH.stub(self._channel)(LIST_AND_WATCH.request())
        try:
            async for response in responses:
                devices = _devices(str(self), response.devices)
                if self._observe is not ignore:
                    more = undecoded_list(response)
                    listed = tuple(devices)
                    self._observe(ListReceived(self.resource, endpoint, stream, responses.size, listed, more))
                self._on_list(devices)
            why, code = "ended by the plugin", "OK"
        except grpc.aio.AioRpcError as error:
            why, code = describe_end(error), error.code().name
        except MalformedMessage as malformed:
            self._observe(malformed_received(self.resource, self.endpoint, stream, malformed))
            why = str(malformed)
        finally:
            responses.cancel()
            self._observe(StreamClosed(self.resource, "", stream, why, endpoint, code))
        log.warning("device plugin %s is unavailable until it registers again: %s", self, why)
        self._watching = None
        await self._channel.close()
        self._on_end()

    async def _call(self, method: Any, request: Any, what: str) -> Any:
        try:
            return await self._call_plugin(method, request, CALL_LIMIT)
        except grpc.aio.AioRpcError as error:
            why = describe_end(error)
        except MalformedMessage as malformed:
            why = str(malformed)
        raise PluginError(f"device plugin {self}: {what} failed: {why}")


def _devices(plugin: str, devices: Sequence[Any]) -> list[PluginDevice]:
    found = [PluginDevice(device.ID, device.health) for device in devices]
    if doubles := len(found) - len({device.id for device in found}):
        log.warning("device plugin %s lists %d ids twice; the later of two counts", plugin, doubles)
    return found


def _grant(response: Any) -> Grant:
    return Grant(
        dict(response.envs),
        tuple(Mount(m.container_path, m.host_path, m.read_only) for m in response.mounts),
        tuple(DeviceNode(d.container_path, d.host_path, d.permissions) for d in response.devices),
        dict(response.annotations),
        tuple(device.name for device in response.cdi_devices),
    )


# The half of the device manager for device plugins: lists, allocates, and shows devices with their health.
#
# It joins the pure modules (`resources`, `allocations`) with the I/O (`DevicePlugin`, `registration`, the
# checkpoint).


Entries = Mapping[str, tuple[ResourceStatus, ...]]
"""`allocatedResourcesStatus` by container; a container without entries has no key."""

Wanted = Mapping[str, Mapping[str, int]]
"""The number of devices of each resource that each container requests."""


class DevicePluginManager:
    """Resources, their plugins, and the containers that hold devices.

    Plugins register at `root/device-plugins/kubelet.sock`, or with a socket of type DevicePlugin in the registration
    directory (a `registration.Handler`). They are removed when their list ends. `root` has its checkpoint.
    """

    def __init__(self, root: Path, context: Context) -> None:
        self.profile, self._gates = context.profile, context.gates
        self._clock, self._observe = context.clock, context.observe
        self._file = Checkpoint(root / ALLOCATIONS_FILE, self._observe)
        self._resources = Resources(self.profile)
        self._allocations = Allocations()
        self._final: dict[str, Entries] = {}
        self._plugins: dict[tuple[str, Path], DevicePlugin] = {}
        self._sockets: dict[Socket, DevicePlugin] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._pod_subscribers: list[Notify] = []
        self._amount_subscribers: list[Callable[[], None]] = []
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._socket = KubeletSocket(root / "device-plugins", self._register, self._clock, self._observe)

    def load(self) -> None:
        """Loads the checkpoint."""
        allocations, resources = load_allocations(self._file.read())
        self._allocations = Allocations(allocations)
        known = {*resources, *(held.resource for held in allocations)}
        self._resources = Resources(self.profile, known, self._clock.now())

    async def start(self) -> None:
        """Starts to serve the kubelet's socket."""
        await self._socket.start()

    async def close(self) -> None:
        """Ends all connections. The checkpoint keeps the state."""
        await self._socket.stop()
        plugins, self._plugins = list(self._plugins.values()), {}
        for plugin in plugins:
            await plugin.close()
        await asyncio.gather(*self._closing, return_exceptions=True)

    # -- plugins

    async def register(self, candidate: Candidate) -> None:
        """Adds a plugin from the registration directory. Raises Refused."""
        if VERSION not in candidate.versions:
            raise Refused(f"version must be {VERSION}, got {one_line(str(list(candidate.versions)))}")
        await self._register(candidate.name, candidate.endpoint, VERSION, candidate.socket)

    async def deregister(self, socket: Socket) -> None:
        """Removes the plugin of that registration socket, unless it has registered in another way since."""
        plugin = self._sockets.pop(socket, None)
        if plugin and self._plugins.get((plugin.resource, plugin.endpoint)) is plugin:
            await plugin.close()
            self._ended(plugin)

    async def _register(self, resource: str, endpoint: Path, version: str, socket: Socket | None = None) -> None:
        """Connects to a plugin and reads its list; a plugin that registers again replaces itself. Raises Refused."""
        if version != VERSION:
            raise Refused(f"version must be {VERSION}, got {one_line(repr(version))}")
        if not is_extended_resource(resource):
            raise Refused(
                f"{one_line(repr(resource))} is not the name of an extended resource, such as example.com/gpu"
            )
        try:
            check_path(endpoint)
        except ValueError as error:
            raise Refused(f"invalid endpoint: {error}") from None
        plugin = self._plugin(resource, endpoint)
        try:
            await plugin.connect()
        except PluginError as error:
            raise Refused(str(error)) from None
        earlier = self._came(plugin)
        if socket is not None:
            self._sockets[socket] = plugin
        if earlier:
            await earlier.close()  # at the end: who cancels us here leaves nothing half done

    def _came(self, plugin: DevicePlugin) -> DevicePlugin | None:
        """Adds a connected plugin; returns the replaced one, which must still be closed.

        The newer one is added before the earlier one is removed, so the resource is never without a plugin.
        """
        key = plugin.resource, plugin.endpoint
        earlier = self._plugins.get(key)
        new = plugin.resource not in self._resources
        self._resources.came(plugin.resource, plugin)
        if earlier:
            self._ended(earlier)
        self._plugins[key] = plugin
        if new:
            self._save()
        log.info("device plugin %s registered", plugin)
        self._observe(PluginRegistered(plugin.resource, path_text(plugin.endpoint), API))
        plugin.watch()
        return earlier

    def _plugin(self, resource: str, endpoint: Path) -> DevicePlugin:
        plugin = DevicePlugin(
            resource,
            endpoint,
            clock=self._clock,
            on_list=lambda devices: self._listed(plugin, devices),
            on_end=lambda: self._list_ended(plugin),
            observe=self._observe,
        )
        return plugin

    def _listed(self, plugin: DevicePlugin, devices: Sequence[PluginDevice]) -> None:
        self._notify(plugin.resource, self._resources.listed(plugin.resource, plugin, devices))

    def _list_ended(self, plugin: DevicePlugin) -> None:
        newest = self._newest(plugin.resource)
        self._ended(plugin)
        if newest and newest is not plugin and self.profile.resource_plugins == "one":
            self._ended(newest)
            closing = spawn(newest.close(), f"end of device plugin {newest}")
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    def _ended(self, plugin: DevicePlugin) -> None:
        if self._plugins.get((plugin.resource, plugin.endpoint)) is plugin:
            del self._plugins[plugin.resource, plugin.endpoint]
            self._observe(PluginDeregistered(plugin.resource, path_text(plugin.endpoint)))
            self._notify(plugin.resource, self._resources.left(plugin.resource, plugin, self._clock.now()))

    # -- devices of pods

    async def allocate(self, pod_uid: str, wanted: Wanted, init: Collection[str] = ()) -> Mapping[str, Grant]:
        """Allocates the devices that each container requests, one container after the other; it keeps existing ones.

        The next container can reuse the devices of a container in `init`, because they do not run at the same time.
        Unknown resources are skipped. Returns the additions to each container. Raises AdmissionError; then the pod has
        no new devices.
        """
        before = self._allocations.of(pod_uid)
        if self._allocations.free_ended():
            self._save()
        try:
            for container, resources in wanted.items():
                for resource, count in sorted(resources.items()):
                    if count and resource in self._resources:
                        await self._allocate(pod_uid, container, resource, count, init)
        except BaseException as error:
            for allocation in self._allocations.of(pod_uid):
                if allocation not in before:
                    self._allocations.remove(allocation)
            if isinstance(error, PluginError):
                raise AdmissionError(str(error)) from None
            raise
        if self._allocations.of(pod_uid) != before:
            self._save()
        return {container: grant_of(self._allocations.of(pod_uid, container)) for container in wanted}

    def wants_pre_start(self, pod_uid: str, container: str) -> bool:
        """Whether a plugin must be called before the container starts."""
        return any(
            plugin.wants_pre_start
            for held in self._allocations.of(pod_uid, container)
            if (plugin := self._newest(held.resource))
        )

    async def pre_start(self, pod_uid: str, container: str) -> None:
        """Announces the container's start to the plugins that require it. Raises PluginError."""
        for held in self._allocations.of(pod_uid, container):
            if plugin := self._newest(held.resource):
                await plugin.pre_start(held.devices)

    def end(self, pod_uid: str) -> None:
        """Marks the pod as ended: its devices are free for others. The profile decides whether its status keeps
        them.
        """
        containers = {held.container: () for held in self._allocations.of(pod_uid)}
        if containers and self.profile.final_status == "kept" and pod_uid not in self._final:
            self._final[pod_uid] = self.allocated_resources_status(pod_uid, PodClaims(containers))
        self._allocations.end(pod_uid)

    def pods(self) -> frozenset[str]:
        """The UIDs of all pods that hold devices of device plugins."""
        return frozenset(held.pod_uid for held in self._allocations)

    def forget(self, pod_uid: str) -> None:
        """Removes a deleted pod."""
        self._final.pop(pod_uid, None)
        if self._allocations.drop(pod_uid):
            self._save()

    async def _allocate(self, pod_uid: str, container: str, resource: str, count: int, init: Collection[str]) -> None:
        async with self._locks.setdefault(resource, asyncio.Lock()):
            held = self._allocations.get(pod_uid, container, resource)
            if held and len(held.devices) != count:
                raise AdmissionError(f"container {container} holds {len(held.devices)} of {resource}, not {count}")
            if held:
                return
            plugin = self._newest(resource)
            if plugin is None:
                raise AdmissionError(f"no device plugin is registered for {resource}")
            again = self._allocations.reusable(pod_uid, resource, init)
            taken = self._allocations.in_use(resource) - again
            available = [device for device in self._resources.healthy(resource) if device not in taken]
            again &= set(available)
            try:
                ask = len(available) > count > len(again)
                preferred = await plugin.preferred(available, sorted(again), count) if ask else ()
                devices = choose(available, count, (*sorted(again), *preferred))
            except ValueError as error:
                raise AdmissionError(f"not enough devices of {resource}: {error}") from None
            grant = await plugin.allocate(devices)
            self._allocations.add(Allocation(pod_uid, container, resource, devices, grant))

    def _newest(self, resource: str) -> DevicePlugin | None:
        plugin = self._resources.newest(resource)
        return plugin if isinstance(plugin, DevicePlugin) else None

    # -- what is seen of it

    def allocated_resources_status(self, pod_uid: str, uses: PodClaims) -> Entries:
        """One entry for each resource of each container; empty with the gate disabled.

        Init containers are omitted if the profile says so (D-12).
        """
        if not self._gates.resource_health_status:
            return {}
        if pod_uid in self._final:
            return self._final[pod_uid]
        users = uses.shown(self.profile.init_containers)
        entries = {name: self._container(self._allocations.of(pod_uid, name)) for name in users}
        return {name: found for name, found in entries.items() if found}

    def amounts(self) -> Mapping[str, Amount]:
        """The node's amount of each resource."""
        known = self._resources.names()
        amounts = self._resources.amounts(self._clock.now())
        if len(amounts) != len(known):
            self._save()
        return amounts

    def subscribe(self, notify: Notify) -> Callable[[], None]:
        """Calls `notify(pod_uids)` when the health of their devices has changed; `notify` must not block."""
        self._pod_subscribers.append(notify)
        return lambda: self._pod_subscribers.remove(notify)

    def subscribe_to_amounts(self, notify: Callable[[], None]) -> Callable[[], None]:
        """Calls `notify()` when `amounts` may have changed; `notify` must not block."""
        self._amount_subscribers.append(notify)
        return lambda: self._amount_subscribers.remove(notify)

    def _container(self, held: Iterable[Allocation]) -> tuple[ResourceStatus, ...]:
        return tuple(ResourceStatus(name, self._shown(name, devices)) for name, devices in by_resource(held).items())

    def _shown(self, resource: str, devices: Iterable[str]) -> tuple[ResourceHealth, ...]:
        found = tuple(ResourceHealth(d, self._resources.health(resource, d)) for d in devices)
        return found if self.profile.plugin_devices_ordered else turned(found, random.randrange(MAP_SLOTS))

    def _notify(self, resource: str, devices: frozenset[str]) -> None:
        pods = self._allocations.holders(resource, devices, by_resource=self.profile.owner_by_resource)
        if pods and self._gates.resource_health_status:
            self._observe(PodsNotified(tuple(sorted(pods))))
            notify_each(self._pod_subscribers, pods)
        for changed in self._amount_subscribers:
            changed()

    def _save(self) -> None:
        self._file.write(dump_allocations(self._allocations, self._resources.names()))
