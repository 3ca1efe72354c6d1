"""The helper of a driver: its two gRPC servers, its ResourceSlices and its health reports.

Source: kubeletplugin, `Start` and `Helper`.
"""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc

from drahealth.fakes.kubelet_plugin.health_streams import HealthStreams
from drahealth.fakes.kubelet_plugin.health_table import HealthTable
from drahealth.fakes.kubelet_plugin.interface import (
    DRAPlugin,
    HealthNotSupported,
    HealthPlugin,
    Listen,
    Options,
    hidden,
)
from drahealth.fakes.kubelet_plugin.services import NodeService, Registration, RegistrationStatus, log_calls
from drahealth.fakes.kubelet_plugin.slices import STOPPED, Owner, Pool, PublishState, SliceSync
from drahealth.fakes.sockets import ServedSocket
from drahealth.fakes.waiting import cancel_and_wait
from drahealth.proto import events
from drahealth.proto.clock import Clock, SystemClock
from drahealth.proto.health_apis import HealthApi
from drahealth.proto.quoting import one_line
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


_LAST_ANSWER = 5.0
"""Seconds for a kubelet to get its answer: the driver may stop because of the registration status in this call."""


async def start(
    plugin: DRAPlugin, options: Options, *, clock: Clock | None = None, health: HealthStreams | None = None
) -> "Helper":
    """Opens the sockets of a driver, so that a kubelet can register and call it.

    `health`: streams that the caller updates, for a plugin without `watch_health`. Raises ValueError for invalid
    options and OSError if a socket cannot be opened; in both cases it removes its files.
    """
    helper = Helper(plugin, options, clock=clock, health=health)
    await helper.start()
    return helper


class Helper:
    """A started driver, as returned by `start`. As a context manager it stops at the end, also on cancellation."""

    def __init__(
        self,
        plugin: DRAPlugin,
        options: Options,
        *,
        clock: Clock | None = None,
        health: HealthStreams | None = None,
        on_status: Callable[[RegistrationStatus], None] = lambda status: None,
    ) -> None:
        self.options = options
        self._clock = clock or SystemClock()
        self._on_status = on_status
        self._registered = asyncio.Event()
        self._heartbeat = options.heartbeat
        self._beating: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._started = False
        self._serves_endpoint = True
        self._changing_endpoint = asyncio.Lock()
        instance = options.rolling_update
        table = HealthTable(options.driver_name)
        self._streams = health or HealthStreams(options.driver_name, instance, table, events.ignore, clock=self._clock)
        self._feed: HealthFeed | None = None
        if health is None and isinstance(plugin, HealthPlugin) and options.served_apis:
            self._feed = HealthFeed(plugin, self._streams, self._failed)
        has_health = health is not None or self._feed is not None
        versions = options.supported_versions if has_health else options.supported_without_health
        self._registration = Registration(options, versions, self._notified)
        self._resources = self._slice_sync()
        functions = {**NodeService(plugin, options).methods(), **self._health_methods(has_health)}
        self._plugin_socket = self._socket(options.plugin_socket, options.plugin_listener, functions)
        self._registration_socket = self._socket(
            options.registration_socket,
            options.registrar_listener,
            {**(functions if options.one_socket else {}), **self._registration.methods()},
        )

    # -- lifecycle

    def check_free(self) -> None:
        """Raises SocketInUse if another process serves at one of the sockets."""
        self._plugin_socket.check_free()
        self._registration_socket.check_free()

    async def start(self) -> None:
        """Like the function `start`. Call it once; a driver that restarts needs a new helper."""
        try:
            async with self._changing_endpoint:
                self._started = True
                if self._serves_endpoint:
                    await self._plugin_socket.start()
            await self._registration_socket.start()
        except BaseException:
            await self.stop()
            raise
        if self._feed:
            self._feed.start()
        self.set_heartbeat(self._heartbeat)

    async def stop(self) -> None:
        """Stops in order: removes the registration socket, ends streams and calls, removes the plugin's socket.

        ResourceSlices stay; a kubelet deletes them if no instance of the driver returns. A second call waits for
        the first and changes nothing.
        """
        self._registration_socket.remove()
        try:
            await self._end(_LAST_ANSWER)
        finally:
            self._plugin_socket.remove()

    async def crash(self) -> None:
        """Ends at once, as after SIGKILL; for fakes. Streams break, and the socket files stay."""
        await self._end(0)

    async def set_endpoint(self, *, served: bool) -> None:
        """Starts or stops serving the plugin's socket, now or at the start; for fakes. The registration socket stays.

        Raises ValueError if both sockets are the same, and OSError if the socket cannot be opened.
        """
        if not served and self.options.one_socket:
            raise ValueError("the driver has one socket for its registration and its endpoint; it cannot close one")
        async with self._changing_endpoint:
            if self._started and not self._ending and served is not self._serves_endpoint:
                await (self._open_endpoint() if served else self._close_endpoint())
            self._serves_endpoint = served

    async def __aenter__(self) -> "Helper":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    # -- registration

    @property
    def registration_status(self) -> RegistrationStatus | None:
        """The last registration status from a kubelet; None before the first."""
        return self._registration.status

    async def wait_registered(self) -> None:
        """Waits until a kubelet has registered the driver."""
        await self._registered.wait()

    def unregister(self) -> None:
        """Removes only the registration socket: a kubelet deregisters the driver, which continues to serve."""
        self._registration_socket.remove()

    def register_again(self) -> None:
        """Restores the registration socket after `unregister`, unless it exists. Raises SocketInUse."""
        self._registration_socket.restore()

    # -- resources

    def publish_resources(self, pools: Mapping[str, Pool], *, new_generation: bool = False) -> None:
        """Publishes these pools, by name, in ResourceSlices; deletes the driver's other pools on this node.

        Returns at once. ResourceSlices that others change or delete are restored. An error of the API server is logged,
        passed to `Options.on_error`, shown in `publish_state`, and retried. `new_generation`: increase the generation
        even if nothing has changed. Raises ValueError if the options have no API server or node, the driver has
        stopped, or a device is not plain data.
        """
        self._resources_or_error().publish(pools, new_generation=new_generation)

    @property
    def publish_state(self) -> PublishState:
        """Whether the ResourceSlices are published, and the last error."""
        return self._resources.state if self._resources else PublishState()

    async def publish_attempted(self) -> Exception | None:
        """Waits for an attempt to publish, and returns its error: None if all is published, ValueError if the driver
        stopped first."""
        return await self._resources_or_error().attempted()

    async def published(self) -> None:
        """Waits until all pools are published. Raises ValueError if the driver stops first."""
        await self._resources_or_error().in_sync()

    async def stop_publishing(self) -> None:
        """Stops publishing until the next `publish_resources`. ResourceSlices stay, for another instance."""
        if self._resources:
            await self._resources.stop()

    async def withdraw_resources(self) -> None:
        """Stops publishing, and deletes the ResourceSlices, except those that another instance has written since."""
        if self._resources:
            await self._resources.withdraw()

    # -- health

    def set_heartbeat(self, seconds: float) -> None:
        """Sets the seconds between complete health reports; 0: none. Raises ValueError."""
        self._heartbeat = replace(self.options, heartbeat=seconds).heartbeat  # checks the value
        if self._beating:
            self._beating.cancel()
        self._beating = asyncio.create_task(
            self._beat(self._heartbeat or math.inf), name=f"heartbeat of {self.options.driver_name}"
        )

    # -- internals

    async def _open_endpoint(self) -> None:
        try:
            await self._plugin_socket.start()
        except BaseException:  # it can be opened again
            await self._close_endpoint()
            raise

    async def _close_endpoint(self) -> None:
        self._plugin_socket.remove()
        await self._plugin_socket.stop()

    async def _beat(self, pause: float) -> None:
        while True:
            await self._clock.sleep(pause)
            self._streams.report_all()

    async def _end(self, grace: float) -> None:
        """Ends all tasks and servers, even if the caller is cancelled meanwhile."""
        if self._ending is None:
            self._ending = asyncio.create_task(self._end_all(grace), name=f"end of {self.options.driver_name}")
        await asyncio.shield(self._ending)

    async def _end_all(self, grace: float) -> None:
        if self._beating:
            await cancel_and_wait(self._beating)
        if self._resources:
            await self._resources.stop()
        if self._feed:
            await self._feed.stop()
        await asyncio.gather(self._registration_socket.stop(grace), self._plugin_socket.stop())

    def _slice_sync(self) -> SliceSync | None:
        o = self.options
        node, uid = o.node_of
        if o.api is None or not node:
            return None
        owner = Owner(o.driver_name, node, uid if o.owned_by_node else "", o.rolling_update, o.main_pool)
        return SliceSync(o.api, owner, self._clock, o.on_error, find_node=o.owned_by_node and not uid)

    def _resources_or_error(self) -> SliceSync:
        if self._resources is None:
            raise ValueError("Options has no node or no API server; set node_name and api to publish resources")
        if self._ending:
            raise ValueError(STOPPED)
        return self._resources

    def _health_methods(self, has_health: bool) -> dict[Method, Any]:
        health_apis = self.options.served_apis if has_health else ()
        if self._feed:
            return self._feed.methods(health_apis)
        return dict(self._streams.methods(health_api.name for health_api in health_apis))

    def _socket(self, path: Path, listen: Listen | None, functions: Mapping[Method, Any]) -> ServedSocket:
        o = self.options
        return ServedSocket(
            path, hidden(path), log_calls(functions, o.log_calls), listen=listen, interceptors=o.interceptors
        )

    def _notified(self, status: RegistrationStatus) -> None:
        if status.plugin_registered:
            self._registered.set()
        else:
            name, error = one_line(self.options.driver_name), one_line(status.error, 500)
            log.warning("kubelet rejected the registration of driver %s: %s", name, error)
        self._on_status(status)

    def _failed(self, error: Exception) -> None:
        if self.options.on_error:
            self.options.on_error(error)
