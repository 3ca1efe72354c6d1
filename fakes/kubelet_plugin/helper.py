"""A driver's helper: its two gRPC servers, its resources and its health, from start to stop.

Source: kubeletplugin, `Start` and `Helper`.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from drahealth.fakes.health.streams import HealthStreams
from drahealth.fakes.health.table import HealthTable
from drahealth.fakes.kubelet_plugin.call_log import numbered
from drahealth.fakes.kubelet_plugin.health import HealthFeed
from drahealth.fakes.kubelet_plugin.interface import DRAPlugin, HealthPlugin
from drahealth.fakes.kubelet_plugin.node_service import NodeService
from drahealth.fakes.kubelet_plugin.options import Listen, Options, hidden
from drahealth.fakes.kubelet_plugin.pools import Owner, Pool
from drahealth.fakes.kubelet_plugin.registration import Registration, RegistrationStatus
from drahealth.fakes.kubelet_plugin.slice_sync import STOPPED, PublishState, SliceSync
from drahealth.fakes.sockets import ServedSocket
from drahealth.proto import events
from drahealth.proto.clock import Clock, SystemClock
from drahealth.proto.quoting import one_line
from drahealth.proto.services import Method

log = logging.getLogger(__name__)


async def start(
    plugin: DRAPlugin, options: Options, *, clock: Clock | None = None, health: HealthStreams | None = None
) -> "Helper":
    """Opens the sockets of a driver: from now on a kubelet registers it and calls it.

    `health` is a source of health that is told of devices by calls, for a plugin that has no `watch_health`. Raises
    ValueError for what makes no driver, OSError where a socket cannot be opened, and then leaves nothing behind.
    """
    helper = Helper(plugin, options, clock=clock, health=health)
    await helper.start()
    return helper


class Helper:
    """What `start` gives. As a context manager it stops at the end, also where that is a cancellation."""

    def __init__(
        self,
        plugin: DRAPlugin,
        options: Options,
        *,
        clock: Clock | None = None,
        health: HealthStreams | None = None,
        told: Callable[[RegistrationStatus], None] = lambda status: None,
    ) -> None:
        self.options = options
        self._clock = clock or SystemClock()
        self._told = told
        self._registered = asyncio.Event()
        self._heartbeat = options.heartbeat
        self._beating: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
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
            options.registration_socket, options.registrar_listener, self._registration.methods()
        )

    # -- its life

    def check_free(self) -> None:
        """Raises SocketInUse where somebody serves at one of its sockets."""
        self._plugin_socket.check_free()
        self._registration_socket.check_free()

    async def start(self) -> None:
        """As the function of that name. Once; a driver that starts again has another helper."""
        try:
            await self._plugin_socket.start()
            await self._registration_socket.start()
        except BaseException:
            await self.stop()
            raise
        if self._feed:
            self._feed.start()
        self.set_heartbeat(self._heartbeat)

    async def stop(self) -> None:
        """Ends in order: the registration socket goes first, then the streams and calls end, then the plugin's socket.

        ResourceSlices stay; a kubelet deletes them if no instance of the driver comes back. Stopping again changes
        nothing, and who stops while that goes on waits for its end.
        """
        self._registration_socket.remove()
        try:
            await self._end()
        finally:
            self._plugin_socket.remove()

    async def crash(self) -> None:
        """Is gone at once, as after SIGKILL: for fakes. Streams are cut, the socket files stay."""
        await self._end()

    async def __aenter__(self) -> "Helper":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    # -- registration

    @property
    def registration_status(self) -> RegistrationStatus | None:
        """What a kubelet said of the registration last; None if none has said anything yet."""
        return self._registration.status

    async def wait_registered(self) -> None:
        """Returns once a kubelet has said that the driver is registered."""
        await self._registered.wait()

    def unregister(self) -> None:
        """Takes away the registration socket alone: a kubelet lets go of the driver, which serves on."""
        self._registration_socket.remove()

    def register_again(self) -> None:
        """Puts the registration socket back after `unregister`; nothing where it is. Raises SocketInUse."""
        self._registration_socket.restore()

    # -- resources

    def publish_resources(self, pools: Mapping[str, Pool], *, anew: bool = False) -> None:
        """These are the driver's pools by name from now on, in ResourceSlices that stay so; all others of it go.

        Returns at once. What the API server refuses is logged, told to `Options.on_error`, in `publish_state`, and
        tried again. `anew`: with a new generation even where nothing has changed. Raises ValueError where the options
        have no API server or node, the driver has stopped, or devices are no plain data.
        """
        self._resources_or_error().publish(pools, anew=anew)

    @property
    def publish_state(self) -> PublishState:
        """How far that is."""
        return self._resources.state if self._resources else PublishState()

    async def publish_attempted(self) -> Exception | None:
        """What came of the first attempt to publish, or of a later one: None where all of it is published, ValueError
        where the driver stops before."""
        return await self._resources_or_error().tried()

    async def published(self) -> None:
        """Returns once all of it is. Raises ValueError if the driver stops before."""
        await self._resources_or_error().in_sync()

    async def leave_resources(self) -> None:
        """Publishes no more, until it is told to again; what is published stays, for another instance to keep."""
        if self._resources:
            await self._resources.stop()

    async def withdraw_resources(self) -> None:
        """Publishes no more, and deletes what it published, but for what another instance has published since."""
        if self._resources:
            await self._resources.withdraw()

    # -- health

    def set_heartbeat(self, seconds: float) -> None:
        """So long between complete health reports from now on; 0: none."""
        self._heartbeat = replace(self.options, heartbeat=seconds).heartbeat  # which refuses what is none
        if self._beating:
            self._beating.cancel()
        self._beating = asyncio.create_task(
            self._beat(self._heartbeat or math.inf), name=f"heartbeat of {self.options.driver_name}"
        )

    # -- inside

    async def _beat(self, pause: float) -> None:
        while True:
            await self._clock.sleep(pause)
            self._streams.tell_all()

    async def _end(self) -> None:
        """Also for whoever is cancelled meanwhile: nothing shall go on behind his back."""
        if self._ending is None:
            self._ending = asyncio.create_task(self._end_all(), name=f"end of {self.options.driver_name}")
        await asyncio.shield(self._ending)

    async def _end_all(self) -> None:
        if self._beating:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)
        if self._resources:
            await self._resources.stop()
        if self._feed:
            await self._feed.stop()
        await asyncio.gather(self._registration_socket.stop(), self._plugin_socket.stop())

    def _slice_sync(self) -> SliceSync | None:
        o = self.options
        node, uid = o.node_of
        if o.api is None or not node:
            return None
        owner = Owner(o.driver_name, node, uid if o.owned_by_node else "", o.rolling_update, o.main_pool)
        return SliceSync(o.api, owner, self._clock, o.on_error, find_node=o.owned_by_node and not uid)

    def _resources_or_error(self) -> SliceSync:
        if self._resources is None:
            raise ValueError("resources are published on a node, to an API server: give node_name and api")
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
            path, hidden(path), numbered(functions, o.log_calls), listen=listen, interceptors=o.interceptors
        )

    def _notified(self, status: RegistrationStatus) -> None:
        if status.plugin_registered:
            self._registered.set()
        else:
            name, error = one_line(self.options.driver_name), one_line(status.error, 500)
            log.warning("a kubelet has not registered driver %s: %s", name, error)
        self._told(status)

    def _failed(self, error: Exception) -> None:
        if self.options.on_error:
            self.options.on_error(error)
