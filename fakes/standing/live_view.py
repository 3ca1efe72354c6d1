"""The live view: drivers with their streams and faults, devices with what is said of them, and what happened last.

What is wrong comes first, so that it is seen however many there are. Log lines go past above it.
"""

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.logging import RichHandler
from rich.table import Table
from rich.text import Text

from drahealth.fakes.ctl.words import words_of
from drahealth.fakes.hardware.control import DriverState
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.fakes.hardware.news import Line
from drahealth.fakes.log_lines import log_to
from drahealth.proto.quoting import printable
from drahealth.proto.values import DeviceHealth, Health

EVERY = 0.5
"""Seconds between two looks."""
LAST = 8
"""Lines of what happened."""

_STYLE = {Health.HEALTHY: "green", Health.UNHEALTHY: "bold red", Health.UNKNOWN: "yellow"}
_URGENCY = [Health.UNHEALTHY, Health.UNKNOWN, Health.HEALTHY]


class LiveView:
    """Hears the news, and shows it with how the drivers are."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        self._drivers: Sequence[FakeDriver] = ()
        self._states: Mapping[str, DriverState] = {}
        self._reports: dict[str, tuple[int, str]] = {}
        self._socket = ""
        self._last: deque[Text] = deque(maxlen=LAST)

    def __call__(self, driver: str, line: Line, /) -> None:
        match line["event"]:
            case "report":
                count, _ = self._reports.get(driver, (0, ""))
                self._reports[driver] = (count + 1, datetime.now().strftime("%H:%M:%S"))
                return
            case "serving":
                self._socket = line["socket"]
        words = f"{datetime.now():%H:%M:%S} {words_of({'driver': driver, **line})}"
        self._last.append(Text(words, no_wrap=True, overflow="ellipsis"))

    @contextmanager
    def shown(self, drivers: Sequence[FakeDriver]) -> Iterator[None]:
        """It is on the terminal, with these drivers; log lines go past above it."""
        self._drivers = drivers
        if sys.stderr.isatty():
            log_to(RichHandler(console=self._console, show_path=False, markup=False), "%(message)s")
        else:
            log_to(logging.StreamHandler(sys.stderr))
        with Live(console=self._console, auto_refresh=False, get_renderable=self.view) as live:
            looking = asyncio.create_task(self._look(live), name="live view")
            try:
                yield
            finally:
                looking.cancel()

    async def _look(self, live: Live) -> None:
        while True:
            self.look([await driver.state() for driver in self._drivers])
            live.refresh()
            await asyncio.sleep(EVERY)

    def look(self, states: Sequence[DriverState]) -> None:
        """These are the drivers' states now, in their order."""
        names = (driver.options.name for driver in self._drivers)
        self._states = dict(zip(names, states, strict=True))

    def view(self) -> RenderableType:
        """What is shown now."""
        room = max(self._console.height - LAST - len(self._drivers) - 8, 3)
        head = Text(f"control socket {printable(self._socket)}" if self._socket else "starting", "bold")
        return Group(head, self._driver_table(), self._device_table(room), *self._last)

    def _driver_table(self) -> Table:
        table = _table("driver", "node", "state", "streams", "claims", "reports", "faults of streams")
        for driver in self._drivers:
            name, state = driver.options.name, self._states.get(driver.options.name)
            if state is None:
                continue
            count, when = self._reports.get(name, (0, ""))
            table.add_row(
                _text(name),
                _text(driver.options.node),
                _state(state),
                str(state.streams),
                str(len(state.prepared)),
                f"{count}, last {when}" if count else "none",
                _text(_wrong(driver), "red"),
            )
        return table

    def _device_table(self, room: int) -> Table:
        table = _table("device", "health", "message", "faults")
        rows = [(driver, device) for driver in self._drivers for device in driver.health.all()]
        rows.sort(key=lambda row: _URGENCY.index(row[1].health))
        for driver, device in rows[:room]:
            name = f"{driver.options.name}/{device.pool}/{device.device}"
            health = _text(str(device.health), _STYLE[device.health])
            table.add_row(_text(name), health, _text(device.message), _text(self._faults(driver, device)))
        if len(rows) > room:
            table.add_row(f"... and {len(rows) - room} more")
        return table

    def _faults(self, driver: FakeDriver, device: DeviceHealth) -> str:
        state = self._states.get(driver.options.name)
        found = state.faults if state else {}
        return " ".join(id_ for path, ids in found.items() if path.replace("/", "-") == device.device for id_ in ids)


def _state(state: DriverState) -> Text:
    if not state.running:
        return _text("not running", "red")
    if state.upgrading:
        return _text("being upgraded", "yellow")
    if state.registered:
        return _text(f"registered {state.instance}".strip(), "green")
    return _text(f"not registered {state.registration_error}".strip(), "yellow")


def _wrong(driver: FakeDriver) -> str:
    health = driver.health
    found = [f"{kind} {value:g}" for kind, value in health.faults.values.items()]
    found += ["silent"] if health.quiet else []
    found += ["partial"] if health.partial else []
    found += [f"skew {health.skew} s"] if health.skew else []
    return ", ".join(found)


def _table(*columns: str) -> Table:
    table = Table(*columns, box=None, header_style="bold cyan", pad_edge=False, expand=False)
    table.columns[0].no_wrap = True
    return table


def _text(words: str, style: str = "") -> Text:
    """One line of the words of others."""
    return Text(printable(words), style)
