"""Where progress is shown: a terminal with a status line at its end, or plain lines."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

from rich.console import Console
from rich.live import Live
from rich.text import Text

from drahealth.suites.check_command.progress import View

_TICK = 1.0
_PAUSE = 10
"""Ticks without a line after which plain lines have the state."""


class TerminalView:
    """Lines, and a status line below them that changes."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def line(self, text: str) -> None:
        """Prints a line, folded at words, above the status."""
        self._live.console.print(Text(text), highlight=False)

    def status(self, text: str) -> None:
        """Replaces the status, which is cut at the width of the terminal."""
        self._live.update(Text(text, style="bold", no_wrap=True, overflow="ellipsis"), refresh=True)


class PlainView:
    """Lines without colors, each at once."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._ticks = 0

    def line(self, text: str) -> None:
        """Writes a line."""
        self._ticks = 0
        self._write(text)

    def status(self, text: str) -> None:
        """Writes the state, if there was no line for a while."""
        self._ticks += 1
        if self._ticks >= _PAUSE:
            self.line(text)


@contextmanager
def view_on(console: Console) -> Iterator[View]:
    """The view for this console. The status disappears at the end."""
    if not console.file.isatty() or console.is_dumb_terminal:
        yield PlainView(lambda line: print(line, file=console.file, flush=True))
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield TerminalView(live)


@asynccontextmanager
async def ticking(tick: Callable[[], None]) -> AsyncIterator[None]:
    """Calls `tick` once a second."""

    async def always() -> None:
        while True:
            await asyncio.sleep(_TICK)
            tick()

    task = asyncio.create_task(always())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
