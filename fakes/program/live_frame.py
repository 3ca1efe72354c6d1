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

REFRESH_SECONDS = 0.5
"""Seconds between refreshes; ages in the view need them even without events."""


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
        refreshing = asyncio.create_task(_refresh(live, before), name="live view")
        try:
            yield
        finally:
            refreshing.cancel()


async def _refresh(live: Live, before: Callable[[], Awaitable[None]]) -> None:
    while True:
        await before()
        live.refresh()
        await asyncio.sleep(REFRESH_SECONDS)


def empty_table(*columns: str) -> Table:
    """An empty table; names in its first column are not wrapped."""
    made = Table(*columns, box=None, header_style="bold cyan", pad_edge=False, expand=False)
    made.columns[0].no_wrap = True
    return made


def plain(text: str, style: str = "") -> Text:
    """Foreign text as one line."""
    return Text(printable(text), style)
