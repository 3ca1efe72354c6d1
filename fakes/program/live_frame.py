"""The frame of a live view on a terminal; log lines scroll above it."""

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, ConsoleRenderable, RenderableType
from rich.control import Control
from rich.live import Live
from rich.logging import RichHandler
from rich.table import Table
from rich.text import Text

from drahealth.fakes.program.log import log_to
from drahealth.proto.quoting import printable

REFRESH_SECONDS = 0.5
"""Seconds between refreshes; ages in the view need them even without events."""
_KEPT_LINES = 100
"""Log lines that are kept, more than a terminal shows."""


async def _nothing() -> None:
    """No action before a refresh."""


@contextmanager
def on_terminal(
    console: Console, view: Callable[[], RenderableType], before: Callable[[], Awaitable[None]] = _nothing
) -> Iterator[None]:
    """Shows the result of `view` on the console, refreshed twice a second; calls `before` first."""
    logged = LogAbove(console)
    if sys.stderr.isatty():
        log_to(logged, "%(message)s")
    else:
        log_to(logging.StreamHandler(sys.stderr))
    with live_frame(console, view, logged) as refresh:
        refreshing = asyncio.create_task(_repeat(refresh, before), name="live view")
        try:
            yield
        finally:
            refreshing.cancel()


async def _repeat(refresh: Callable[[], None], before: Callable[[], Awaitable[None]]) -> None:
    while True:
        await before()
        refresh()
        await asyncio.sleep(REFRESH_SECONDS)


class LogAbove(RichHandler):
    """Prints log lines above the frame, and keeps the last ones."""

    def __init__(self, console: Console) -> None:
        super().__init__(console=console, show_path=False, markup=False)
        self._last = deque[ConsoleRenderable](maxlen=_KEPT_LINES)

    def render(self, **parts: Any) -> ConsoleRenderable:
        """What is printed for a record."""
        line = super().render(**parts)
        self._last.append(line)
        return line

    def last(self, rows: int) -> list[ConsoleRenderable]:
        """The last log lines, as many as fill these rows of the terminal."""
        found = deque[ConsoleRenderable]()
        for line in reversed(self._last):
            if rows <= 0:
                break
            found.appendleft(line)
            rows -= len(self.console.render_lines(line))
        return list(found)


@contextmanager
def live_frame(console: Console, view: Callable[[], RenderableType], logged: LogAbove) -> Iterator[Callable[[], None]]:
    """Shows the result of `view`, and gives the function that refreshes it.

    Most terminals wrap the rows of the frame when they get narrower, and then the frame has more rows than we know of.
    So after each change of the size the screen is cleared, and the last log lines are printed again.
    """
    size = console.size
    with Live(console=console, auto_refresh=False, get_renderable=view) as live:

        def refresh() -> None:
            nonlocal size
            if console.size == size:
                live.refresh()
                return
            size = console.size
            with console:  # the terminal gets all of it at once
                console.control(Control.home(), Control.clear())
                live.refresh()
                for line in logged.last(size.height - len(console.render_lines(view()))):
                    console.print(line)

        yield refresh


def empty_table(*columns: str) -> Table:
    """An empty table; names in its first column are not wrapped."""
    made = Table(*columns, box=None, header_style="bold cyan", pad_edge=False, expand=False)
    made.columns[0].no_wrap = True
    return made


def plain(text: str, style: str = "") -> Text:
    """Foreign text as one line."""
    return Text(printable(text), style)
