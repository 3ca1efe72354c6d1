"""The frame of a live view on a terminal; log lines scroll above it."""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.live import Live
from rich.logging import RichHandler
from rich.table import Table
from rich.text import Text

from drahealth.fakes.program.log_lines import log_to
from drahealth.proto.quoting import printable

EVERY = 0.5
"""Seconds between two looks, so that ages go on while nothing happens."""


async def _nothing() -> None:
    """No action before a refresh."""


@contextmanager
def on_terminal(
    console: Console, view: Callable[[], RenderableType], before: Callable[[], Awaitable[None]] = _nothing
) -> Iterator[None]:
    """Shows the result of `view` on the console, refreshed twice a second; calls `before` first."""
    if sys.stderr.isatty():
        log_to(RichHandler(console=console, show_path=False, markup=False), "%(message)s")
    else:
        log_to(logging.StreamHandler(sys.stderr))
    with Live(console=console, auto_refresh=False, get_renderable=view) as live:
        looking = asyncio.create_task(_look(live, before), name="live view")
        try:
            yield
        finally:
            looking.cancel()


async def _look(live: Live, before: Callable[[], Awaitable[None]]) -> None:
    while True:
        await before()
        live.refresh()
        await asyncio.sleep(EVERY)


def empty_table(*columns: str) -> Table:
    """An empty table; names in its first column are not wrapped."""
    made = Table(*columns, box=None, header_style="bold cyan", pad_edge=False, expand=False)
    made.columns[0].no_wrap = True
    return made


def plain(words: str, style: str = "") -> Text:
    """Foreign text as one line."""
    return Text(printable(words), style)
