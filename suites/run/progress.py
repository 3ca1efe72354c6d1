"""Progress output on a terminal while a step takes long."""

import threading
import time
from collections.abc import Callable

from rich.console import Console
from rich.markup import escape

EVERY = 8.0
"""Seconds between two calls of an ElapsedTime."""
_MIB = 1024 * 1024
_EVERY = 5.0
"""Seconds between two lines of a StagePrinter for the same stage."""


class StagePrinter:
    """Prints a line when a stage begins, and every few seconds during it. Implements `binaries.progress.Progress`."""

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


class ElapsedTime:
    """Calls `on_time` regularly with the current activity and its seconds so far, between `begin` and `end`.

    It uses a thread, because the activity may block the main thread.
    """

    def __init__(self, on_time: Callable[[str, float], None], every: float = EVERY) -> None:
        self._on_time = on_time
        self._every = every
        self._ended: threading.Event | None = None

    def begin(self, activity: str) -> None:
        """Begin an activity, and end the previous one."""
        self.end()
        self._ended = threading.Event()
        threading.Thread(target=self._report, args=(activity, self._ended), name="elapsed time", daemon=True).start()

    def end(self) -> None:
        """End the current activity, if there is one."""
        if self._ended:
            self._ended.set()
        self._ended = None

    def _report(self, activity: str, ended: threading.Event) -> None:
        began = time.monotonic()
        while not ended.wait(self._every):
            self._on_time(activity, time.monotonic() - began)
