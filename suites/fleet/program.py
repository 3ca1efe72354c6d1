"""The process part of a fleet: it writes the objects of all hollow nodes, and serves a control socket."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from drahealth.fakes.cluster.api import DEVICE_CLASSES, ApiError, ListWatch
from drahealth.fakes.control.fake_options import DriverOptions
from drahealth.fakes.control.news import News
from drahealth.fakes.control.server import ControlServer, Served, ServedDrivers
from drahealth.fakes.control.socket_path import listen
from drahealth.fakes.control.wire import LINE_LIMIT
from drahealth.fakes.program.errors import CommandError
from drahealth.fakes.program.metrics_server import LOOPBACK, MetricsServer
from drahealth.fakes.program.private_files import BearerToken
from drahealth.fakes.timelines.play import Story
from drahealth.fakes.waiting import in_background
from drahealth.manager.profile import Gates, Profile
from drahealth.proto.clock import Clock
from drahealth.proto.values import MESSAGE_GATE, STATUS_GATE, Report
from drahealth.suites.errors import HarnessError
from drahealth.suites.fleet.client import AT_ONCE, FleetClient
from drahealth.suites.fleet.driver import FleetDriver
from drahealth.suites.fleet.objects import FleetObjects, Pools
from drahealth.suites.fleet.playing import FleetPodObserver, play_on_fleet
from drahealth.suites.fleet.pods import FleetPods
from drahealth.suites.fleet.topology import HollowNodeName
from drahealth.suites.story.manifests import device_class

METRICS_TOKEN = "fleet.metrics-token"
"""The file with the bearer token of the metrics, beside the control socket."""
RESYNC = 60.0
"""Seconds between two syncs of a Pod, as in kubelets."""


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """The nodes of a fleet, the drivers over all of them (`fleet_options`), and the release of its kubelets."""

    nodes: Sequence[HollowNodeName]
    drivers: Sequence[DriverOptions]
    kubernetes: str
    profile: Profile
    gates: Mapping[str, bool]
    socket: Path
    stories: Sequence[Story] = ()
    """Timelines that are played on the only driver."""
    metrics_port: int | None = None


class Fleet:
    """All hollow nodes of a control plane, in one event loop. `run` ends when it is cancelled.

    `bound` is the same client, limited to Pods that are bound to a node.
    """

    def __init__(
        self, settings: FleetSettings, client: ListWatch, bound: ListWatch, *, news: News, clock: Clock
    ) -> None:
        limit = asyncio.Semaphore(AT_ONCE)
        api = FleetClient(client, limit)
        self.ready = asyncio.Event()
        self.metrics = ""
        """The URL of the metrics, if they are served."""
        self.news = news
        self._settings = settings
        self._api = api
        self._objects = FleetObjects(api, settings.nodes, settings.kubernetes, clock)
        self.drivers = [FleetDriver(options, clock, self._publish) for options in settings.drivers]
        self.pods = FleetPods(
            FleetClient(bound, limit),
            [node.name for node in settings.nodes],
            self._reports,
            profile=settings.profile,
            gates=Gates(settings.gates.get(STATUS_GATE, True), settings.gates.get(MESSAGE_GATE, True)),
            clock=clock,
            heartbeat=min((driver.options.heartbeat for driver in self.drivers), default=0.0),
            resync=RESYNC,
        )
        for driver in self.drivers:
            driver.health.add(_Reporter(self.pods))
            driver.prepared = self.pods.prepared

    async def run(self) -> None:
        """Registers all nodes, sets `ready`, and runs until cancelled. Raises HarnessError if it cannot start."""
        async with AsyncExitStack() as stack:
            try:
                for driver in self.drivers:
                    await self._make_class(driver.name)
                await self._objects.register(self._pools())
                await self._objects.until_schedulable()
            except ApiError as error:
                raise HarnessError(f"the hollow nodes cannot be registered: {error}") from None
            await self.pods.start()
            stack.push_async_callback(self.pods.stop)
            for driver in self.drivers:
                driver.resume()
                stack.push_async_callback(driver.suspend)
            await self._serve(stack)
            await self._serve_metrics(stack)
            self.ready.set()
            async with in_background(self._play(), "timeline of the fleet"):
                await self._objects.renew_leases()

    async def _play(self) -> None:
        if self._settings.stories:
            observer = FleetPodObserver(self.pods)
            await play_on_fleet(self.drivers[0], self.pods, observer, self._settings.stories, self.news.publish)

    async def _serve_metrics(self, stack: AsyncExitStack) -> None:
        if (port := self._settings.metrics_port) is None:
            return
        from drahealth.suites.fleet.metrics import FleetMetrics  # only here: it brings the Prometheus client

        token = BearerToken.kept_in(self._settings.socket.with_name(METRICS_TOKEN))
        metrics = FleetMetrics(self.drivers, self._settings.nodes)
        stack.callback(self.news.add(metrics.count))
        server = MetricsServer(metrics.text, token)
        try:
            await server.start(LOOPBACK, port)
        except OSError as error:
            raise CommandError(
                f"--metrics-port: port {port} cannot be used: {error.strerror}; choose another", 3
            ) from None
        stack.push_async_callback(server.stop)
        self.metrics = server.url

    async def _serve(self, stack: AsyncExitStack) -> None:
        path = self._settings.socket
        served = ServedDrivers((Served.driver(driver.options, driver) for driver in self.drivers), self.news)
        server = ControlServer(_refuse, make_plugin=_refuse, served=served)
        stack.push_async_callback(server.close)
        serving = await asyncio.start_unix_server(server.serve, sock=listen(path), limit=LINE_LIMIT)
        stack.callback(path.unlink, missing_ok=True)
        stack.callback(serving.close)

    async def _make_class(self, driver: str) -> None:
        try:
            await self._api.create(DEVICE_CLASSES, device_class(driver))
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise

    async def _publish(self) -> None:
        await self._objects.publish(self._pools())

    def _pools(self) -> Pools:
        return {driver.name: driver.pools() for driver in self.drivers}

    def _reports(self, node: str) -> Iterator[tuple[str, Report]]:
        for driver in self.drivers:
            yield driver.name, driver.report_of(node)


def _refuse(*_: object) -> NoReturn:
    raise ValueError("the process of a fleet makes no drivers; use `drahealth driver serve`")


class _Reporter:
    """Reports the devices of the nodes of changed devices. It is a `HealthReporter`."""

    def __init__(self, pods: FleetPods) -> None:
        self._pods = pods

    def report_changes(self, changed: Report, *, coalesces: bool) -> None:
        """A report of some devices."""
        for node in dict.fromkeys(device.pool for device in changed):
            self._pods.report(node)

    def report_all(self) -> None:
        """A fleet's devices are never replaced."""
