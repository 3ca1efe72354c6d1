"""The live table: plugins with their streams, devices with their health, pods with their statuses.

Problems come first. Log lines scroll above the table. Foreign text is made safe for a terminal.
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from drahealth.fakes.program.live_frame import empty_table, on_terminal, plain
from drahealth.manager.dra import Device
from drahealth.proto.events import (
    Event,
    ManagerStarted,
    PluginDeregistered,
    PluginRegistered,
    PodDeleted,
    ReportSummary,
    StatusSeen,
    StreamClosed,
    StreamOpened,
)
from drahealth.proto.values import Health

_STYLE = {Health.HEALTHY: "green", Health.UNHEALTHY: "bold red", Health.UNKNOWN: "yellow"}
_URGENCY = [Health.UNHEALTHY, Health.UNKNOWN, Health.HEALTHY]


@dataclass(slots=True)
class _Plugin:
    health_api: str | None
    is_open: bool = False
    why: str = ""
    reports: int = 0


class LiveTable:
    """The observer that shows the table; `devices` gives all devices with their current health."""

    def __init__(self, devices: Callable[[], Iterable[Device]], console: Console | None = None) -> None:
        self._devices = devices
        self._console = console or Console()
        self._started: ManagerStarted | None = None
        self._plugins: dict[tuple[str, str], _Plugin] = {}
        self._pods: dict[str, StatusSeen] = {}

    def __call__(self, event: Event, /) -> None:
        match event:
            case ManagerStarted():
                self._started = event
            case PluginRegistered(driver, endpoint, health_api):
                self._plugins[driver, endpoint] = _Plugin(health_api)
            case PluginDeregistered(driver, endpoint):
                self._plugins.pop((driver, endpoint), None)
            case StreamOpened() if plugin := self._plugins.get((event.driver, event.endpoint)):
                plugin.health_api, plugin.is_open = event.health_api, True
            case StreamClosed() if plugin := self._plugins.get((event.driver, event.endpoint)):
                plugin.is_open, plugin.why = False, event.why
            case ReportSummary(driver):
                for (name, _), plugin in self._plugins.items():
                    plugin.reports += name == driver and plugin.is_open
            case StatusSeen():
                self._pods[event.uid] = event
            case PodDeleted():
                self._pods.pop(event.uid, None)

    def shown(self) -> AbstractContextManager[None]:
        """Shows the table on the terminal, with log lines above it."""
        return on_terminal(self._console, self.table)

    def table(self) -> RenderableType:
        """The current table."""
        room = max((self._console.height - 12) // 2, 3)
        return Group(self._head(), self._plugin_table(), self._device_table(room), self._pod_table(room))

    def _head(self) -> Text:
        if self._started is None:
            return Text("drahealth manager is starting")
        started = self._started
        head = plain(f"node {started.node}, profile {started.profile}, root directory {started.root_dir}", "bold")
        head.append("\n").append(plain(f"manifests {started.pods}   kubeconfig {started.kubeconfig}", "dim"))
        if started.metrics:
            head.append(plain(f"   metrics {started.metrics}", "dim"))
        return head

    def _plugin_table(self) -> Table:
        table = empty_table("plugin", "endpoint", "health stream", "reports")
        for (driver, endpoint), plugin in self._plugins.items():
            if plugin.health_api is None:
                stream = Text("none: it reports no health", style="yellow")
            elif plugin.is_open:
                stream = plain(f"open, {plugin.health_api}", "green")
            else:
                stream = plain(f"not open {plugin.why}".strip(), "red")
            table.add_row(plain(driver), plain(endpoint), stream, str(plugin.reports))
        return table

    def _device_table(self, room: int) -> Table:
        table = empty_table("device", "health", "message", "reported")
        devices = sorted(self._devices(), key=lambda device: _URGENCY.index(device.reading.health))
        for device in devices[:room]:
            health, age = device.reading.health, f"{device.age:.0f} s ago" + (", stale" if device.stale else "")
            table.add_row(plain(str(device.id)), plain(health, _STYLE[health]), plain(device.reading.message), age)
        if len(devices) > room:
            table.add_row(f"... and {len(devices) - room} more", "", "", "")
        return table

    def _pod_table(self, room: int) -> Table:
        table = empty_table("pod", "phase", "containers", "devices")
        rows = sorted((_pod_row(pod) for pod in self._pods.values()), key=lambda row: row[0])
        for _, *cells in rows[:room]:
            table.add_row(*cells)
        if len(rows) > room:
            table.add_row(f"... and {len(rows) - room} more", "", "", "")
        return table


def _pod_row(seen: StatusSeen) -> tuple[tuple[int, str], Text, Text, Text, Text]:
    """The priority of the row, and its cells."""
    name = f"{seen.namespace}/{seen.pod}"
    devices, worst = Text(), len(_URGENCY)
    for container, entries in seen.entries():
        for shown in (shown for entry in entries for shown in entry.resources):
            worst = min(worst, _URGENCY.index(shown.health))
            devices.append("\n" if devices else "").append(plain(f"{shown.resource_id} "))
            devices.append(plain(shown.health, _STYLE[shown.health]))
            devices.append(plain(f" {shown.message}" if shown.message else ""))
            devices.append("" if container else ", used by no container")
    containers = plain(", ".join(f"{c.name} {c.state}" for c in (*seen.init_containers, *seen.containers)))
    if seen.pending:
        containers.append("\n" if containers else "").append(plain(seen.pending, "yellow"))
    return (worst, name), plain(name), plain(seen.phase), containers, devices
