"""The live table: plugins with their streams, devices with their health, pods with what their statuses show.

What is wrong comes first, so that it is seen however many there are. Log lines go past above it.
"""

import asyncio
import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.logging import RichHandler
from rich.table import Table
from rich.text import Text

from drahealth.fakes.api import Object
from drahealth.manager.dra import Device
from drahealth.manager.observer import (
    PluginDeregistered,
    PluginRegistered,
    ReportTaken,
    StreamEnded,
    StreamOpened,
)
from drahealth.proto.values import Health
from drahealth.suites.standalone.events import Event, PodGone, Started, StatusChanged
from drahealth.suites.story.workload import status_seen

EVERY = 0.5
"""Seconds between two looks, so that ages go on while nothing happens."""

_STYLE = {Health.HEALTHY: "green", Health.UNHEALTHY: "bold red", Health.UNKNOWN: "yellow"}
_URGENCY = [Health.UNHEALTHY, Health.UNKNOWN, Health.HEALTHY]


@dataclass(slots=True)
class _Plugin:
    health_api: str | None
    is_open: bool = False
    why: str = ""
    reports: int = 0


class LiveTable:
    """The onlooker that shows it; `devices` gives all devices as they are now."""

    def __init__(self, devices: Callable[[], Iterable[Device]], console: Console | None = None) -> None:
        self._devices = devices
        self._console = console or Console()
        self._started: Started | None = None
        self._plugins: dict[tuple[str, str], _Plugin] = {}
        self._pods: dict[str, Object] = {}

    def __call__(self, event: Event, /) -> None:
        match event:
            case Started():
                self._started = event
            case PluginRegistered(driver, endpoint, health_api):
                self._plugins[driver, endpoint] = _Plugin(health_api)
            case PluginDeregistered(driver, endpoint):
                self._plugins.pop((driver, endpoint), None)
            case StreamOpened(driver, endpoint, health_api) if plugin := self._plugins.get((driver, endpoint)):
                plugin.health_api, plugin.is_open = health_api, True
            case StreamEnded(driver, endpoint, why) if plugin := self._plugins.get((driver, endpoint)):
                plugin.is_open, plugin.why = False, why
            case ReportTaken(driver):
                for (name, _), plugin in self._plugins.items():
                    plugin.reports += name == driver and plugin.is_open
            case StatusChanged(pod):
                self._pods[pod["metadata"]["uid"]] = pod
            case PodGone(pod):
                self._pods.pop(pod["metadata"]["uid"], None)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """It is on the terminal, and log lines go past above it."""
        handler = RichHandler(console=self._console, show_path=False, markup=False)
        if not sys.stderr.isatty():
            logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
        else:
            logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[handler])
        with Live(console=self._console, auto_refresh=False, get_renderable=self.table) as live:
            refreshing = asyncio.create_task(self._refresh(live), name="live table")
            try:
                yield
            finally:
                refreshing.cancel()

    async def _refresh(self, live: Live) -> None:
        with suppress(asyncio.CancelledError):
            while True:
                live.refresh()
                await asyncio.sleep(EVERY)

    def table(self) -> RenderableType:
        """What is shown now."""
        room = max((self._console.height - 12) // 2, 3)
        return Group(self._head(), self._plugin_table(), self._device_table(room), self._pod_table(room))

    def _head(self) -> Text:
        if self._started is None:
            return Text("drahealth manager is starting")
        started = self._started
        head = Text(f"node {started.node}, profile {started.profile}, root directory {started.root_dir}", style="bold")
        head.append(f"\nmanifests {started.pods}   kubeconfig {started.kubeconfig}", style="dim")
        if started.metrics:
            head.append(f"   metrics {started.metrics}", style="dim")
        return head

    def _plugin_table(self) -> Table:
        table = _table("plugin", "endpoint", "health stream", "reports")
        for (driver, endpoint), plugin in self._plugins.items():
            if plugin.health_api is None:
                stream = Text("none: it reports no health", style="yellow")
            elif plugin.is_open:
                stream = Text(f"open, {plugin.health_api}", style="green")
            else:
                stream = Text(f"not open {plugin.why}".strip(), style="red")
            table.add_row(Text(driver), Text(endpoint), stream, str(plugin.reports))
        return table

    def _device_table(self, room: int) -> Table:
        table = _table("device", "health", "message", "reported")
        devices = sorted(self._devices(), key=lambda device: _URGENCY.index(device.reading.health))
        for device in devices[:room]:
            health, age = device.reading.health, f"{device.age:.0f} s ago" + (", stale" if device.stale else "")
            table.add_row(Text(str(device.id)), Text(health, _STYLE[health]), Text(device.reading.message), age)
        if len(devices) > room:
            table.add_row(f"... and {len(devices) - room} more", "", "", "")
        return table

    def _pod_table(self, room: int) -> Table:
        table = _table("pod", "phase", "containers", "devices")
        rows = sorted((_pod_row(pod) for pod in self._pods.values()), key=lambda row: row[0])
        for _, *cells in rows[:room]:
            table.add_row(*cells)
        if len(rows) > room:
            table.add_row(f"... and {len(rows) - room} more", "", "", "")
        return table


def _table(*columns: str) -> Table:
    table = Table(*columns, box=None, header_style="bold cyan", pad_edge=False, expand=False)
    table.columns[0].no_wrap = True
    return table


def _pod_row(pod: Object) -> tuple[tuple[int, str], Text, Text, Text, Text]:
    """How urgent it is, and the cells."""
    seen, name = status_seen(pod), f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    devices, worst = Text(), len(_URGENCY)
    for container in seen.containers:
        for entry in container.resources or ():
            for shown in entry.resources:
                worst = min(worst, _URGENCY.index(shown.health))
                devices.append("\n" if devices else "").append(f"{shown.resource_id} ")
                devices.append(shown.health, style=_STYLE[shown.health])
                devices.append(f" {shown.message}" if shown.message else "")
    containers = Text(", ".join(f"{container.name} {container.state}" for container in seen.containers))
    return (worst, name), Text(name), Text(seen.phase), containers, devices
