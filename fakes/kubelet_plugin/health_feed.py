"""Serve a plugin's health in all health APIs: one iteration of `watch_health` feeds all streams."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import grpc

from drahealth.fakes.kubelet_plugin.health_streams import HealthStreams
from drahealth.fakes.kubelet_plugin.interface import HealthNotSupported, HealthPlugin
from drahealth.fakes.waiting import cancel_and_wait
from drahealth.proto.health_apis import HealthApi
from drahealth.proto.services import Method

log = logging.getLogger(__name__)


class HealthFeed:
    """Iterates over `watch_health`, and passes its devices to the health streams."""

    def __init__(self, plugin: HealthPlugin, streams: HealthStreams, on_error: Callable[[Exception], None]) -> None:
        self._plugin = plugin
        self._streams = streams
        self._on_error = on_error
        self._feeding: asyncio.Task[None] | None = None
        self._known = asyncio.Event()
        """Set after the first report, or when the iteration ends without one."""
        self._supported = True

    def methods(self, health_apis: tuple[HealthApi, ...]) -> dict[Method, Callable[..., Any]]:
        """Handlers of these health APIs; all others answer Unimplemented."""
        served = self._streams.methods(health_api.name for health_api in health_apis)
        watched = {health_api.method for health_api in health_apis}
        return {method: self._with_feed(of) if method in watched else of for method, of in served.items()}

    def start(self) -> None:
        """Starts the iteration, unless it is running."""
        if self._feeding is None or self._feeding.done():
            self._known.clear()
            self._feeding = asyncio.create_task(self._feed(), name="health of devices")

    async def stop(self) -> None:
        """Cancels the iteration."""
        task, self._feeding = self._feeding, None
        if task:
            await cancel_and_wait(task)

    async def _feed(self) -> None:
        code = grpc.StatusCode.OK
        try:
            async for devices in self._plugin.watch_health():
                self._streams.table.replace_devices(devices)
                self._known.set()
        except HealthNotSupported:
            self._supported = False
            code = grpc.StatusCode.UNIMPLEMENTED
        except Exception as error:
            log.exception("watch_health of the plugin failed; all health streams end")
            self._on_error(error)
            code = grpc.StatusCode.UNKNOWN
        finally:
            self._known.set()
            self._streams.end(code)

    def _with_feed(self, watch: Callable[..., Any]) -> Callable[..., AsyncIterator[Any]]:
        """Wraps a stream handler: starts the iteration, and waits for its first report."""

        async def answer(request: Any, context: Any) -> AsyncIterator[Any]:
            if self._supported:
                self.start()
                await self._known.wait()
            if not self._supported:
                await context.abort(grpc.StatusCode.UNIMPLEMENTED, "this driver does not report device health")
            async with aclosing(watch(request, context)) as messages:
                async for message in messages:
                    yield message

        return answer
