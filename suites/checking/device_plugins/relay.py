"""Passes the calls of a real kubelet on to a device plugin, and records them.

A device plugin can expect one ListAndWatch stream at a time, so drahealth does not open a second one beside that of the
kubelet.
"""

from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from drahealth.fakes.sockets import ServedSocket
from drahealth.manager.calls import PluginCalls, malformed_received, next_stream, path_text
from drahealth.manager.device_plugin import API, CALL_LIMIT
from drahealth.manager.plugin import describe_end
from drahealth.proto.clock import Clock
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
from drahealth.proto.events import ListReceived, Observe, StreamClosed, StreamOpened
from drahealth.proto.extended_resources import PluginDevice
from drahealth.proto.plain_messages import undecoded_list
from drahealth.proto.services import MalformedMessage, Method, Unary
from drahealth.proto.sockets import target
from drahealth.suites.checking.device_plugins.registered import RegisteredPlugin
from drahealth.suites.checking.kubelet.connection import connected
from drahealth.suites.checking.kubelet.subscriber import CANCELLED_BY_US
from drahealth.suites.checking.outcomes import Incomplete

_REGISTER_LIMIT = 60.0
"""Seconds for the kubelet to answer Register: it connects to the plugin meanwhile."""

Handler = Callable[[Any, Any], Coroutine[Any, Any, Any]]


class Relay:
    """A socket in the directory of a kubelet, behind which is a device plugin."""

    def __init__(self, plugin: RegisteredPlugin, folder: Path, name: str, clock: Clock, observe: Observe) -> None:
        """`folder` has the socket of the kubelet; `name` is unique there."""
        self._plugin = plugin
        self._clock = clock
        self._observe = observe
        self._folder = folder
        unary = (GET_OPTIONS, GET_PREFERRED_ALLOCATION, ALLOCATE, PRE_START_CONTAINER)
        functions: dict[Method, Any] = {method: self._passing(method) for method in unary}
        functions[LIST_AND_WATCH] = self._lists
        self._socket = ServedSocket(folder / f"{name}.sock", folder / f".{name}", functions)
        self._opened = AsyncExitStack()
        self._channel: grpc.aio.Channel | None = None

    async def start(self) -> None:
        """Connects to the plugin, serves the socket, and registers at the kubelet. Raises Incomplete."""
        self._channel = await self._opened.enter_async_context(connected(self._plugin.endpoint))
        await self._socket.start()
        fields: dict[str, Any] = {
            "version": VERSION,
            "endpoint": self._socket.path.name,
            "resource_name": self._plugin.resource,
        }
        async with grpc.aio.insecure_channel(target(self._folder / KUBELET_SOCKET)) as kubelet:
            try:
                await REGISTER.stub(kubelet)(REGISTER.request(**fields), timeout=_REGISTER_LIMIT)
            except grpc.aio.AioRpcError as error:
                raise Incomplete(f"the kubelet refused the registration: {describe_end(error)}") from None

    async def stop(self) -> None:
        """Ends the socket, and the connection to the plugin."""
        self._socket.remove()
        await self._socket.stop()
        await self._opened.aclose()

    def _passing(self, method: Unary[Any, Any]) -> Handler:
        async def handle(request: Any, context: Any) -> Any:
            assert self._channel, "not started"
            plugin = self._plugin
            call = PluginCalls(self._channel, self._clock, self._observe, plugin.endpoint, plugin.resource)
            try:
                return await call(method, request, CALL_LIMIT)
            except grpc.aio.AioRpcError as error:
                await context.abort(error.code(), error.details() or "")
            except MalformedMessage as malformed:
                await context.abort(grpc.StatusCode.INTERNAL, str(malformed))

        return handle

    async def _lists(self, request: Any, context: Any) -> AsyncGenerator[Any, None]:
        assert self._channel, "not started"
        resource, endpoint, stream = self._plugin.resource, path_text(self._plugin.endpoint), next_stream()
        self._observe(StreamOpened(resource, "", stream, API, endpoint))
        responses = LIST_AND_WATCH.stub(self._channel)(request)
        why, code = CANCELLED_BY_US, "CANCELLED"
        try:
            async for response in responses:
                devices = tuple(PluginDevice(device.ID, device.health) for device in response.devices)
                more = undecoded_list(response)
                self._observe(ListReceived(resource, endpoint, stream, responses.size, devices, more))
                yield response
            why, code = "ended by the plugin", "OK"
        except grpc.aio.AioRpcError as error:
            why, code = describe_end(error), error.code().name
            await context.abort(error.code(), error.details() or "")
        except MalformedMessage as malformed:
            self._observe(malformed_received(resource, self._plugin.endpoint, stream, malformed))
            why, code = str(malformed), ""
            await context.abort(grpc.StatusCode.INTERNAL, str(malformed))
        finally:
            responses.cancel()
            self._observe(StreamClosed(resource, "", stream, why, endpoint, code))
