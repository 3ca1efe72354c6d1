"""The live view: drivers and device plugins with their streams and faults, devices with their reported health, and the
latest events.

What is wrong comes first, so that it is seen however many there are. Log lines go past above it.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import NamedTuple

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from drahealth.fakes.control.replies import DriverState, PluginState
from drahealth.fakes.hardware.device_plugin import FakeDevicePlugin
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.fakes.program.live_frame import empty_table, on_terminal, plain
from drahealth.proto.events import DriverEvent, DriverServed, ReportSummary
from drahealth.proto.events.text import format_event
from drahealth.proto.quoting import printable
from drahealth.proto.values import Health, health_of

LAST = 8
"""Lines of what happened."""

_STYLE = {Health.HEALTHY: "green", Health.UNHEALTHY: "bold red", Health.UNKNOWN: "yellow"}
_URGENCY = [Health.UNHEALTHY, Health.UNKNOWN, Health.HEALTHY]


class LiveView:
    """Shows the last events, with how the drivers are."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        self._drivers: Sequence[FakeDriver] = ()
        self._plugins: Sequence[FakeDevicePlugin] = ()
        self._states: Mapping[str, DriverState] = {}
        self._plugin_states: Mapping[str, PluginState] = {}
        self._reports: dict[str, tuple[int, str]] = {}
        self._socket = ""
        self._last: deque[Text] = deque(maxlen=LAST)

    def __call__(self, event: DriverEvent, /) -> None:
        match event:
            case ReportSummary(driver):
                count, _ = self._reports.get(driver, (0, ""))
                self._reports[driver] = (count + 1, datetime.now().strftime("%H:%M:%S"))
                return
            case DriverServed():
                self._socket = event.socket
        words = f"{datetime.now():%H:%M:%S} {format_event(event)}"
        self._last.append(Text(words, no_wrap=True, overflow="ellipsis"))

    @contextmanager
    def shown(self, drivers: Sequence[FakeDriver], plugins: Sequence[FakeDevicePlugin] = ()) -> Iterator[None]:
        """It is on the terminal, with these; log lines go past above it."""
        self._drivers, self._plugins = drivers, plugins
        with on_terminal(self._console, self.view, self.look):
            yield

    async def look(self) -> None:
        """Sees how they are now."""
        self._states = {driver.options.name: await driver.state() for driver in self._drivers}
        self._plugin_states = {plugin.options.resource: await plugin.state() for plugin in self._plugins}

    def view(self) -> RenderableType:
        """What is shown now."""
        room = max(self._console.height - LAST - len(self._drivers) - len(self._plugins) - 8, 3)
        head = Text(f"control socket {printable(self._socket)}" if self._socket else "starting", "bold")
        return Group(head, self._driver_table(), self._device_table(room), *self._last)

    def _driver_table(self) -> Table:
        table = empty_table("driver", "node", "state", "streams", "claims", "reports", "faults of streams")
        for driver in self._drivers:
            name, state = driver.options.name, self._states.get(driver.options.name)
            if state is None:
                continue
            claims, wrong = str(len(state.prepared)), plain(", ".join(state.stream_faults), "red")
            node = plain(driver.options.node)
            table.add_row(plain(name), node, _state(state), str(state.streams), claims, self._reported(name), wrong)
        for name, plugged in self._plugin_states.items():
            table.add_row(plain(name), "", _state(plugged), str(plugged.streams), "", self._reported(name), "")
        return table

    def _reported(self, name: str) -> str:
        count, when = self._reports.get(name, (0, ""))
        return f"{count}, last {when}" if count else "none"

    def _device_table(self, room: int) -> Table:
        table = empty_table("device", "health", "message", "faults")
        rows = [row for driver in self._drivers for row in self._devices_of(driver)]
        rows += [row for plugin in self._plugins for row in self._listed_by(plugin)]
        rows.sort(key=lambda row: _URGENCY.index(row.health))
        for row in rows[:room]:
            table.add_row(
                plain(f"{row.owner}/{row.name}"),
                plain(row.reported, _STYLE[row.health]),
                plain(row.message),
                plain(self._faults(row)),
            )
        if len(rows) > room:
            table.add_row(f"... and {len(rows) - room} more")
        return table

    def _devices_of(self, driver: FakeDriver) -> Iterator["_Row"]:
        name, devices = driver.options.name, driver.health.all()
        return (_Row(name, f"{d.pool}/{d.device}", d.device, d.health, str(d.health), d.message) for d in devices)

    def _listed_by(self, plugin: FakeDevicePlugin) -> Iterator["_Row"]:
        for device in plugin.known:
            reported = device.health if device.listed else f"{device.health}, not listed"
            yield _Row(plugin.options.resource, device.device, device.device, health_of(device.health), reported, "")

    def _faults(self, row: "_Row") -> str:
        state = self._states.get(row.owner) or self._plugin_states.get(row.owner)
        found = state.faults if state else {}
        return " ".join(id_ for path, ids in found.items() if path.replace("/", "-") == row.device for id_ in ids)


class _Row(NamedTuple):
    """A device. Thousands of them are looked at each time."""

    owner: str
    name: str
    device: str
    health: Health
    reported: str
    message: str


def _state(state: DriverState | PluginState) -> Text:
    if not state.running:
        return plain("not running", "red")
    if isinstance(state, DriverState) and state.upgrading:
        return plain("being upgraded", "yellow")
    if state.registered:
        return plain(f"registered {state.instance}".strip(), "green")
    return plain(f"not registered {state.registration_error}".strip(), "yellow")
