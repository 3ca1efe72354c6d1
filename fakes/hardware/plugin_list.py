"""The parts of a fake device plugin: its list of devices, allocations, and registration."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from watchfiles import awatch

from drahealth.fakes.control.fake_options import KEPT, PluginOptions
from drahealth.fakes.control.replies import ListedDevice
from drahealth.fakes.hardware.failing import DeviceState
from drahealth.fakes.hints import near
from drahealth.proto.services import ALLOCATE, GET_PREFERRED_ALLOCATION, KUBELET_SOCKET, PRE_START_CONTAINER, REGISTER
from drahealth.proto.sockets import target
from drahealth.proto.values import PluginDevice

# The device list of a device plugin, in order, with the health of each device. Pure.
#
# The list omits a device after the command `remove`, or while it has a fault that makes devices vanish.

Response = tuple[PluginDevice, ...]
"""The devices of one ListAndWatch response."""


class PluginList:
    """The devices of one device plugin; all are Healthy at the start."""

    def __init__(self, resource: str, ids: Iterable[str]) -> None:
        self._resource = resource
        self._devices = {id_: ListedDevice(id_, PluginDevice(id_).health) for id_ in ids}
        self._removed: set[str] = set()
        self._vanished: set[str] = set()

    def all(self) -> tuple[ListedDevice, ...]:
        """All devices with their health, including devices that are not listed."""
        return tuple(self._devices.values())

    def response(self) -> Response:
        """The ListAndWatch response with the listed devices."""
        return tuple(PluginDevice(device.device, device.health) for device in self.all() if device.listed)

    def set(self, health: str, *devices: str) -> None:
        """Sets the health of devices. ValueError for an unknown device."""
        self._devices |= {device: replace(self.known(device), health=health) for device in devices}

    def remove(self, *devices: str) -> None:
        """Removes devices from the list. ValueError for an unknown device, and for one that is not listed."""
        if out := [device for device in devices if not self.known(device).listed]:
            raise ValueError(f"device plugin {self._resource} does not list {', '.join(out)}")
        self._removed.update(devices)
        self._update(*devices)

    def restore(self, *devices: str) -> None:
        """Lists devices again. ValueError for an unknown device, and for one that is listed."""
        if there := [device for device in devices if self.known(device).listed]:
            raise ValueError(f"device plugin {self._resource} already lists {', '.join(there)}")
        self._removed.difference_update(devices)
        self._vanished.difference_update(devices)
        self._update(*devices)

    def reset(self) -> bool:
        """Lists all devices as Healthy; returns whether anything changed."""
        before = self.all()
        self._removed.clear()
        self._vanished.clear()
        self._devices = {id_: ListedDevice(id_, PluginDevice(id_).health) for id_ in self._devices}
        return before != self.all()

    def change(self, states: Mapping[str, DeviceState]) -> Response:
        """Applies the states of devices after a change of their faults. Returns the next response.

        A device that vanishes is in this response, and omitted from the following ones.
        """
        for device, state in states.items():
            self.set(str(state.health), device)
            self._vanished.discard(device)
            self._update(device)
        last = self.response()
        for device in (device for device, state in states.items() if not state.listed):
            self._vanished.add(device)
            self._update(device)
        return last

    def known(self, device: str) -> ListedDevice:
        """The device with this id. Raises ValueError for an unknown device."""
        if device not in self._devices:
            hint = near(device, self._devices)
            raise ValueError(f"unknown device {device!r} of device plugin {self._resource}; {hint}")
        return self._devices[device]

    def _update(self, *devices: str) -> None:
        out = self._removed | self._vanished
        self._devices |= {device: replace(self._devices[device], listed=device not in out) for device in devices}


# The queue of ListAndWatch responses to one kubelet, which can read more slowly than devices change.

MAX_RESPONSES = 100
"""Queued responses; each lists all devices, so the oldest are dropped first."""


class ResponseQueue:
    """The newest responses, in order, until the end of the stream."""

    def __init__(self, *first: Response) -> None:
        self._responses = deque(first, maxlen=MAX_RESPONSES)
        self._put = asyncio.Event()
        self._is_ended = False

    def put(self, response: Response) -> None:
        """Queues a response."""
        self._responses.append(response)
        self._put.set()

    def end(self) -> None:
        """Ends the stream after the queued responses."""
        self._is_ended = True
        self._put.set()

    async def take(self) -> Response | None:
        """Waits for the next response, and removes it. None at the end of the stream."""
        while not self._responses:
            if self._is_ended:
                return None
            self._put.clear()
            await self._put.wait()
        return self._responses.popleft()


# What a fake device plugin does for one container: the devices that it prefers, allocates and starts with.


class Calls:
    """The devices of the newest calls, and the number of all calls."""

    def __init__(self) -> None:
        self.newest = deque[tuple[str, ...]](maxlen=KEPT)
        self.count = 0

    def add(self, devices: tuple[str, ...]) -> None:
        """Records a call with these devices."""
        self.newest.append(devices)
        self.count += 1


class Allocations:
    """Handles GetPreferredAllocation, Allocate and PreStartContainer (device plugin API v1beta1)."""

    def __init__(self, options: PluginOptions) -> None:
        self._options = options
        self._inventory = options.all_devices
        self.allocated = Calls()
        """The calls of Allocate, by container."""
        self.started = Calls()
        """The calls of PreStartContainer."""

    async def prefer(self, request: Any, context: Any) -> Any:
        """Prefers the devices of the options, then the first ones by name."""
        response = GET_PREFERRED_ALLOCATION.response()
        for container in request.container_requests:
            available = list(container.available_deviceIDs)
            first = [device for device in self._options.preferred if device in available]
            chosen = dict.fromkeys((*container.must_include_deviceIDs, *first, *sorted(available)))
            response.container_responses.add(deviceIDs=list(chosen)[: container.allocation_size])
        return response

    async def allocate(self, request: Any, context: Any) -> Any:
        """Gives each container its CDI devices, or environment variables without CDI. Unknown devices are NOT_FOUND."""
        response = ALLOCATE.response()
        wanted = [tuple(container.devices_ids) for container in request.container_requests]
        if unknown := {one for devices in wanted for one in devices} - set(self._options.devices):
            await context.abort(grpc.StatusCode.NOT_FOUND, f"unknown devices: {', '.join(sorted(unknown))}")
        for devices in wanted:
            self.allocated.add(devices)
            kind = self._options.cdi_kind
            names = [{"name": f"{kind}={device}"} for device in devices] if kind else []
            envs = {"DEVICES": ",".join(devices), **({} if kind else self._environment(devices))}
            response.container_responses.add(envs=envs, cdi_devices=names)
        return response

    async def pre_start(self, request: Any, context: Any) -> Any:
        """Records the devices of a container that starts."""
        self.started.add(tuple(request.devices_ids))
        return PRE_START_CONTAINER.response()

    def _environment(self, devices: Iterable[str]) -> dict[str, str]:
        """Environment variables of a container with these devices, if there is no CDI specification."""
        known = (self._inventory.find(device) for device in devices)
        return {name: value for device in known if device for name, value in device.environment.items()}


# Register a device plugin at the kubelet's socket, and again after each restart of the kubelet, or without its
# socket.
#
# A starting kubelet removes the sockets of all plugins from that directory (D-11).

REGISTER_TIMEOUT = 10.0
"""Timeout of a Register call, in seconds."""

_RESCAN = 500  # milliseconds between checks of the directory without a change
_OWN_CONNECTION = (("grpc.use_local_subchannel_pool", 1),)
"""gRPC would use an open connection to an earlier kubelet at the same path again."""
_NO_ANSWER = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)

log = logging.getLogger(__name__)


class KubeletRegistration:
    """Registers with each kubelet socket that appears in a directory, and again when the plugin's socket was removed.

    `ready()` returns whether the plugin is served; `on_result(ok, error)` receives the kubelet's answer; `has_socket()`
    returns whether the plugin's socket exists.
    """

    def __init__(
        self,
        folder: Path,
        request: Any,
        ready: Callable[[], Awaitable[bool]],
        on_result: Callable[[bool, str], None],
        has_socket: Callable[[], bool],
    ) -> None:
        self._has_socket = has_socket
        self._kubelet = folder / KUBELET_SOCKET
        self._request = request
        self._ready = ready
        self._on_result = on_result

    async def run(self) -> None:
        """Registers with each new kubelet socket, and after each removal of the plugin's socket, until cancelled."""
        known = None
        self._kubelet.parent.mkdir(parents=True, exist_ok=True)
        async for _ in _ticks(self._kubelet.parent):
            found = _identity(self._kubelet)
            if found is None or (found == known and self._has_socket()):
                continue
            if await self._ready() and await self._register(found):
                known = found

    async def _register(self, socket: tuple[int, int]) -> bool:
        """Calls Register; returns whether the kubelet answered.

        A call that arrives while a kubelet stops can stay without an answer, so it ends when the socket has gone.
        """
        async with grpc.aio.insecure_channel(target(self._kubelet), options=_OWN_CONNECTION) as channel:
            call = asyncio.ensure_future(REGISTER.stub(channel)(self._request, timeout=REGISTER_TIMEOUT))
            try:
                while not (await asyncio.wait([call], timeout=_RESCAN / 1000))[0]:
                    if _identity(self._kubelet) != socket:
                        await channel.close()
                await call
            except grpc.aio.AioRpcError as error:
                if error.code() in _NO_ANSWER:
                    log.debug("%s: the kubelet does not answer: %s", self._request.resource_name, error.details())
                    return False
                self._on_result(False, f"{error.code().name}: {error.details()}")
            else:
                self._on_result(True, "")
            finally:
                call.cancel()
        return True


async def _ticks(folder: Path) -> AsyncIterator[None]:
    """When to check the folder: now, after each change in it, and every half second."""
    yield
    async for _ in awatch(folder, debounce=20, step=5, rust_timeout=_RESCAN, yield_on_timeout=True):
        yield


def _identity(socket: Path) -> tuple[int, int] | None:
    try:
        found = socket.lstat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns
