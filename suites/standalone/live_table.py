"""The live table: plugins with their streams, devices with their health, pods with what their statuses show.

What is wrong comes first, so that it is seen however many there are. Log lines go past above it. What plugins and
manifests bring is made fit for a terminal, which would take escapes among it for orders.
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
from drahealth.fakes.log_lines import log_to
from drahealth.manager.dra import Device
from drahealth.manager.observer import (
    PluginDeregistered,
    PluginRegistered,
    ReportTaken,
    StreamEnded,
    StreamOpened,
)
from drahealth.proto.quoting import printable
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
        if sys.stderr.isatty():
            log_to(RichHandler(console=self._console, show_path=False, markup=False), "%(message)s")
        else:
            log_to(logging.StreamHandler(sys.stderr))
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
        head = _text(f"node {started.node}, profile {started.profile}, root directory {started.root_dir}", "bold")
        head.append("\n").append(_text(f"manifests {started.pods}   kubeconfig {started.kubeconfig}", "dim"))
        if started.metrics:
            head.append(_text(f"   metrics {started.metrics}", "dim"))
        return head

    def _plugin_table(self) -> Table:
        table = _table("plugin", "endpoint", "health stream", "reports")
        for (driver, endpoint), plugin in self._plugins.items():
            if plugin.health_api is None:
                stream = Text("none: it reports no health", style="yellow")
            elif plugin.is_open:
                stream = _text(f"open, {plugin.health_api}", "green")
            else:
                stream = _text(f"not open {plugin.why}".strip(), "red")
            table.add_row(_text(driver), _text(endpoint), stream, str(plugin.reports))
        return table

    def _device_table(self, room: int) -> Table:
        table = _table("device", "health", "message", "reported")
        devices = sorted(self._devices(), key=lambda device: _URGENCY.index(device.reading.health))
        for device in devices[:room]:
            health, age = device.reading.health, f"{device.age:.0f} s ago" + (", stale" if device.stale else "")
            table.add_row(_text(str(device.id)), _text(health, _STYLE[health]), _text(device.reading.message), age)
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
    for container, entries in seen.entries():
        for shown in (shown for entry in entries for shown in entry.resources):
            worst = min(worst, _URGENCY.index(shown.health))
            devices.append("\n" if devices else "").append(_text(f"{shown.resource_id} "))
            devices.append(_text(shown.health, _STYLE[shown.health]))
            devices.append(_text(f" {shown.message}" if shown.message else ""))
            devices.append("" if container else ", used by no container")
    containers = ", ".join(f"{c.name} {c.state}" for c in (*seen.init_containers, *seen.containers))
    return (worst, name), _text(name), _text(seen.phase), _text(containers), devices


def _text(words: str, style: str = "") -> Text:
    """One line of the words of others."""
    return Text(printable(words), style)
