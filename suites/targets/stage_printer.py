"""Prints the progress of targets: the stages of a start, of a download, of a build."""

import time

from rich.console import Console
from rich.markup import escape

_MIB = 1024 * 1024
_EVERY = 5.0
"""Seconds between two lines for the same stage."""


class StagePrinter:
    """Prints a line when a stage begins, and every few seconds during it. It is a `Progress`."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._topic = ""
        self._last = 0.0

    def __call__(self, stage: str, done: int | None = None, total: int | None = None) -> None:
        now = time.monotonic()
        topic = stage.partition(" (")[0]  # the rest is the elapsed time
        if topic == self._topic and now - self._last < _EVERY:
            return
        self._topic, self._last = topic, now
        size = "" if done is None else f"  {done // _MIB} MiB" + (f" of {total // _MIB}" if total else "")
        self._console.print(f"[dim]{escape(stage)}{size}[/]", soft_wrap=True)
