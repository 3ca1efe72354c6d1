"""One ListAndWatch stream, as a kubelet opens it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio

from drahealth.manager.calls import malformed_received, next_stream, path_text
from drahealth.manager.device_plugin import API
from drahealth.manager.plugin import describe_end
from drahealth.proto.clock import Clock
from drahealth.proto.device_plugin import LIST_AND_WATCH
from drahealth.proto.events import ListReceived, Observe, StreamClosed, StreamOpened
from drahealth.proto.extended_resources import PluginDevice
from drahealth.proto.plain_messages import undecoded_list
from drahealth.proto.services import MalformedMessage
from drahealth.suites.checking.device_plugins.registered import RegisteredPlugin
from drahealth.suites.checking.kubelet.connection import connected
from drahealth.suites.checking.kubelet.subscriber import CANCELLED_BY_US, REPORTS_LIMIT
from drahealth.suites.checking.kubelet.waiting import within


class ListStream:
    """A stream from `listed` to its end."""

    def __init__(self, channel: grpc.aio.Channel, clock: Clock, observe: Observe, plugin: RegisteredPlugin) -> None:
        self.first: asyncio.Future[tuple[PluginDevice, ...]] = asyncio.get_running_loop().create_future()
        self.latest: tuple[PluginDevice, ...] = ()
        """The last list."""
        self._clock = clock
        self._observe = observe
        self._plugin = plugin
        self._channel = channel
        self._task = asyncio.create_task(self._read(), name=f"ListAndWatch of {plugin.resource}")

    async def devices(self, limit: float) -> tuple[PluginDevice, ...] | None:
        """The first list; None if it does not come within the limit, or if the stream ends before."""
        try:
            await within(self._clock, limit, self._first_or_end())
        except TimeoutError:
            return None
        return self.first.result() if self.first.done() else None

    async def cancel(self) -> None:
        """Ends the stream; no effect if it has ended."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _first_or_end(self) -> None:
        waits: list[asyncio.Future[Any]] = [self.first, self._task]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)

    async def _read(self) -> None:
        resource, endpoint, stream = self._plugin.resource, path_text(self._plugin.endpoint), next_stream()
        self._observe(StreamOpened(resource, "", stream, API, endpoint))
        responses = LIST_AND_WATCH.stub(self._channel)(LIST_AND_WATCH.request())
        count, why, code = 0, CANCELLED_BY_US, "CANCELLED"
        try:
            async for response in responses:
                devices = tuple(PluginDevice(device.ID, device.health) for device in response.devices)
                more = undecoded_list(response)
                self._observe(ListReceived(resource, endpoint, stream, responses.size, devices, more))
                self.latest = devices
                if not self.first.done():
                    self.first.set_result(devices)
                count += 1
                if count >= REPORTS_LIMIT:
                    why = f"{CANCELLED_BY_US} after {count} lists"
                    return
            why, code = "ended by the plugin", "OK"
        except grpc.aio.AioRpcError as error:
            why, code = describe_end(error), error.code().name
        except MalformedMessage as malformed:
            self._observe(malformed_received(resource, self._plugin.endpoint, stream, malformed))
            why, code = str(malformed), ""
        finally:
            responses.cancel()
            self._observe(StreamClosed(resource, "", stream, why, endpoint, code))


@asynccontextmanager
async def listed(plugin: RegisteredPlugin, clock: Clock, observe: Observe) -> AsyncGenerator[ListStream, None]:
    """A stream on a connection of its own; it is cancelled at the end."""
    async with connected(plugin.endpoint) as channel:
        stream = ListStream(channel, clock, observe, plugin)
        try:
            yield stream
        finally:
            await stream.cancel()
