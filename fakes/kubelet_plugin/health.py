"""A plugin's health, told by all health APIs at once: one iteration of `watch_health`, any number of streams."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import grpc

from drahealth.fakes.health.streams import HealthStreams
from drahealth.fakes.kubelet_plugin.interface import HealthNotSupported, HealthPlugin
from drahealth.proto.health_apis import HealthApi
from drahealth.proto.services import Method

log = logging.getLogger(__name__)


class HealthFeed:
    """Runs the iteration while it is wanted, and gives what it says to the streams."""

    def __init__(self, plugin: HealthPlugin, streams: HealthStreams, on_error: Callable[[Exception], None]) -> None:
        self._plugin = plugin
        self._streams = streams
        self._on_error = on_error
        self._feeding: asyncio.Task[None] | None = None
        self._known = asyncio.Event()
        """The first report has come, or none will."""
        self._supported = True

    def methods(self, health_apis: tuple[HealthApi, ...]) -> dict[Method, Callable[..., Any]]:
        """Handlers for these; all others are Unimplemented."""
        served = self._streams.methods(health_api.name for health_api in health_apis)
        watched = {health_api.method for health_api in health_apis}
        return {method: self._fed(method, of) if method in watched else of for method, of in served.items()}

    def start(self) -> None:
        """Asks the plugin, unless that is going on."""
        if self._feeding is None or self._feeding.done():
            self._known.clear()
            self._feeding = asyncio.create_task(self._feed(), name="health of devices")

    async def stop(self) -> None:
        """Asks no more."""
        task, self._feeding = self._feeding, None
        if task:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _feed(self) -> None:
        code = grpc.StatusCode.OK
        try:
            async for devices in self._plugin.watch_health():
                self._streams.table.become(devices)
                self._known.set()
        except HealthNotSupported:
            self._supported = False
            code = grpc.StatusCode.UNIMPLEMENTED
        except Exception as error:
            log.exception("the health of devices is not known any more")
            self._on_error(error)
            code = grpc.StatusCode.UNKNOWN
        finally:
            self._known.set()
            self._streams.end(code)

    def _fed(self, method: Method, watch: Callable[..., Any]) -> Callable[..., AsyncIterator[Any]]:
        """The same for a stream that is told of devices first when there are some."""

        async def answer(request: Any, context: Any) -> AsyncIterator[Any]:
            if self._supported:
                self.start()
                await self._known.wait()
            if not self._supported:
                await context.abort(grpc.StatusCode.UNIMPLEMENTED, "the devices of this driver have no health to tell")
            async with aclosing(watch(request, context)) as messages:
                async for message in messages:
                    yield message

        return answer
