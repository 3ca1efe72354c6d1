"""One connected device plugin: its options, its list of devices, and the calls around a container's start."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import grpc.aio

from drahealth.manager.calls import PluginCalls, malformed_received, next_stream, path_text
from drahealth.manager.plugin import PluginError, describe_end
from drahealth.manager.registration import DIAL_LIMIT
from drahealth.manager.tasks import spawn
from drahealth.proto.clock import Clock
from drahealth.proto.device_plugin import (
    ALLOCATE,
    GET_OPTIONS,
    GET_PREFERRED_ALLOCATION,
    LIST_AND_WATCH,
    PRE_START_CONTAINER,
    VERSION,
)
from drahealth.proto.events import ListReceived, Observe, StreamClosed, StreamOpened, ignore
from drahealth.proto.extended_resources import DeviceNode, Grant, Mount, PluginDevice
from drahealth.proto.plain_messages import undecoded_list
from drahealth.proto.quoting import one_line
from drahealth.proto.services import MalformedMessage
from drahealth.proto.sockets import target

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
