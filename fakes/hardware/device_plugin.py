"""A fake device plugin: registers, lists its devices as it is told, and allocates them."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import grpc.aio
from watchfiles import awatch

from drahealth.fakes.hardware.plugin_control import PluginOptions, PluginState
from drahealth.fakes.sockets import ServedSocket
from drahealth.proto import events
from drahealth.proto.device_plugin import (
    ALLOCATE,
    GET_OPTIONS,
    GET_PREFERRED_ALLOCATION,
    KUBELET_SOCKET,
    LIST_AND_WATCH,
    PRE_START_CONTAINER,
    REGISTER,
    VERSION,
)
from drahealth.proto.events import Observe
from drahealth.proto.extended_resources import PluginDevice
from drahealth.proto.services import GET_INFO, NOTIFY_REGISTRATION, Method
from drahealth.proto.sockets import target

REGISTER_LIMIT = 10.0
"""Seconds that a kubelet has to answer a registration."""

_RESCAN = 500  # milliseconds after which the directory is looked at in any case
_serial = count(1)

log = logging.getLogger(__name__)


class FakeDevicePlugin:
    """A device plugin in this process. Implements `plugin_control.PluginControl`; see there for what the calls do."""

    def __init__(self, options: PluginOptions, *, observe: Observe = events.ignore) -> None:
        self.options = options
        self._observe = observe
        self._health = {device: str(PluginDevice(device).health) for device in options.devices}
        self._removed: dict[str, str] = {}
        self._queues: dict[str, asyncio.Queue[tuple[PluginDevice, ...]]] = {}
        self._allocated: list[tuple[str, ...]] = []
        self._started: list[tuple[str, ...]] = []
        self._registered = asyncio.Event()
        self._registration_error = ""
        self._running = False
        self._keeping: asyncio.Task[None] | None = None
        self._kubelet = Path(options.plugins_dir) / KUBELET_SOCKET
        found = options.registration == "plugins_registry"
        folder, name = Path(options.data_dir if found else options.plugins_dir), options.socket_name
        self.endpoint = folder / name
        self._plugin = ServedSocket(self.endpoint, folder / f".{name}", self._plugin_methods())
        registry = Path(options.registry_dir)
        methods: dict[Method, Any] = {GET_INFO: self._get_info, NOTIFY_REGISTRATION: self._notified}
        self._registration = ServedSocket(registry / name, registry / f".{name}", methods) if found else None

    # -- control

    async def start(self) -> None:
        if self._running:
            return
        self._running = True
        self._registered.clear()
        await self._plugin.start()
        if self._registration:
            await self._registration.start()
        else:
            self._keeping = asyncio.create_task(self._keep_registered(), name=f"device plugin {self.options.resource}")

    async def stop(self) -> None:
        if self._registration:
            self._registration.remove()
        self._plugin.remove()
        await self.crash()

    async def crash(self) -> None:
        self._running = False
        for stream in list(self._queues):  # now, before a kubelet can notice and say so
            self._closed(stream, "the plugin has ended")
        task, self._keeping = self._keeping, None
        if task:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if self._registration:
            await self._registration.stop()
        await self._plugin.stop()

    async def retire(self) -> None:
        await self.stop()
        if self._registration:
            self._leave_folder()

    async def wait_registered(self) -> None:
        await self._registered.wait()

    async def set_health(self, device: str, health: str) -> None:
        health.encode()
        self._known(device, self._health)
        self._health[device] = health
        self._tell()

    async def remove(self, device: str) -> None:
        self._known(device, self._health)
        self._removed[device] = self._health.pop(device)
        self._tell()

    async def restore(self, device: str) -> None:
        self._known(device, self._removed)
        self._health[device] = self._removed.pop(device)
        self._tell()

    async def state(self) -> PluginState:
        return PluginState(
            running=self._running,
            registered=self._registered.is_set(),
            registration_error=self._registration_error,
            listed=tuple(self._health),
            streams=len(self._queues),
            allocated=tuple(self._allocated),
            started=tuple(self._started),
        )

    def _leave_folder(self) -> None:
        with suppress(OSError):  # somebody else is in it
            Path(self.options.data_dir).rmdir()

    # -- registration

    async def _keep_registered(self) -> None:
        """Registers with each kubelet socket that appears: a kubelet that starts anew removes the plugin's (D-11)."""
        known = None
        self._kubelet.parent.mkdir(parents=True, exist_ok=True)
        async for _ in _looks(self._kubelet.parent):
            found = _identity(self._kubelet)
            if found is None or found == known:
                continue
            if not self.endpoint.exists():
                await self._plugin.stop()
                await self._plugin.start()
            if await self._register():
                known = found

    async def _register(self) -> bool:
        """Whether the kubelet answered at all."""
        request = REGISTER.request(
            version=VERSION,
            endpoint=self.endpoint.name,
            resource_name=self.options.resource,
            options=self._options(),
        )
        async with grpc.aio.insecure_channel(target(self._kubelet)) as channel:
            try:
                await REGISTER.stub(channel)(request, timeout=REGISTER_LIMIT)
            except grpc.aio.AioRpcError as error:
                if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                    log.debug("device plugin %s: no kubelet answers: %s", self.options.resource, error.details())
                    return False
                self._told(False, f"{error.code().name}: {error.details()}")
            else:
                self._told(True, "")
        return True

    def _told(self, ok: bool, error: str) -> None:
        self._registration_error = error
        if ok:
            self._registered.set()
        self._observe(events.Registered(self.options.resource, self.options.instance, ok, error))

    async def _get_info(self, request: Any, context: Any) -> Any:
        endpoint = str(self.endpoint)
        return GET_INFO.response(
            type="DevicePlugin", name=self.options.resource, endpoint=endpoint, supported_versions=[VERSION]
        )

    async def _notified(self, request: Any, context: Any) -> Any:
        self._told(request.plugin_registered, request.error)
        return NOTIFY_REGISTRATION.response()

    # -- the service

    def _plugin_methods(self) -> dict[Method, Any]:
        return {
            GET_OPTIONS: self._get_options,
            LIST_AND_WATCH: self._list_and_watch,
            GET_PREFERRED_ALLOCATION: self._prefer,
            ALLOCATE: self._allocate,
            PRE_START_CONTAINER: self._pre_start,
        }

    def _options(self) -> Any:
        o = self.options
        return GET_OPTIONS.response(
            pre_start_required=o.pre_start, get_preferred_allocation_available=bool(o.preferred)
        )

    async def _get_options(self, request: Any, context: Any) -> Any:
        return self._options()

    async def _list_and_watch(self, request: Any, context: Any) -> AsyncIterator[Any]:
        resource, instance = self.options.resource, self.options.instance
        stream = f"{resource}#{next(_serial)}"
        queue: asyncio.Queue[tuple[PluginDevice, ...]] = asyncio.Queue()
        self._queues[stream] = queue
        self._observe(events.StreamOpened(resource, instance, stream, f"{VERSION}.DevicePlugin"))
        queue.put_nowait(self._list())
        try:
            while True:
                devices = await queue.get()
                self._observe(events.DevicesListed(resource, instance, stream, devices))
                yield LIST_AND_WATCH.response(devices=[{"ID": d.id, "health": d.health} for d in devices])
        finally:
            self._closed(stream, "cancelled by the kubelet, or the connection ended")

    def _closed(self, stream: str, why: str) -> None:
        if self._queues.pop(stream, None) is not None:
            self._observe(events.StreamClosed(self.options.resource, self.options.instance, stream, why))

    async def _prefer(self, request: Any, context: Any) -> Any:
        response = GET_PREFERRED_ALLOCATION.response()
        for wanted in request.container_requests:
            available = list(wanted.available_deviceIDs)
            first = [device for device in self.options.preferred if device in available]
            chosen = dict.fromkeys((*wanted.must_include_deviceIDs, *first, *sorted(available)))
            response.container_responses.add(deviceIDs=list(chosen)[: wanted.allocation_size])
        return response

    async def _allocate(self, request: Any, context: Any) -> Any:
        response = ALLOCATE.response()
        for wanted in request.container_requests:
            devices = tuple(wanted.devices_ids)
            self._allocated.append(devices)
            kind = self.options.cdi_kind
            names = [{"name": f"{kind}={device}"} for device in devices] if kind else []
            response.container_responses.add(envs={"DEVICES": ",".join(devices)}, cdi_devices=names)
        return response

    async def _pre_start(self, request: Any, context: Any) -> Any:
        self._started.append(tuple(request.devices_ids))
        return PRE_START_CONTAINER.response()

    def _list(self) -> tuple[PluginDevice, ...]:
        return tuple(PluginDevice(device, health) for device, health in self._health.items())

    def _tell(self) -> None:
        for queue in self._queues.values():
            queue.put_nowait(self._list())

    def _known(self, device: str, among: dict[str, str]) -> None:
        if device not in among:
            names = ", ".join(among) or "none"
            raise ValueError(f"the plugin of {self.options.resource} has no such device {device}; there are {names}")


async def _looks(folder: Path) -> AsyncIterator[None]:
    """When to look into the folder: now, at each change in it, and now and then."""
    yield
    async for _ in awatch(folder, debounce=20, step=5, rust_timeout=_RESCAN, yield_on_timeout=True):
        yield


def _identity(socket: Path) -> tuple[int, int] | None:
    try:
        found = socket.lstat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns
