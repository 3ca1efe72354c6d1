"""Progress of long work, for people: the stages of a start, a download or a build, and the time of one activity."""

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.console import Console

_MIB = 1024 * 1024
_STAGE_SECONDS = 5.0
"""Seconds between two lines for the same stage."""
EVERY = 8.0
"""Seconds between two calls of an ElapsedTime."""


class Progress(Protocol):
    """Gets the current stage, at least every ten seconds during a wait."""

    def __call__(self, stage: str, done: int | None = None, total: int | None = None) -> None:
        """`stage` is a phrase for people; `done` and `total` are bytes, None if unknown."""


def silent(stage: str, done: int | None = None, total: int | None = None) -> None:
    """Ignores progress."""


class StagePrinter:
    """Prints a line when a stage begins, and every few seconds during it. It is a `Progress`."""

    def __init__(self, console: "Console") -> None:
        self._console = console
        self._topic = ""
        self._last = 0.0

    def __call__(self, stage: str, done: int | None = None, total: int | None = None) -> None:
        now = time.monotonic()
        topic = stage.partition(" (")[0]  # the rest is the elapsed time
        if topic == self._topic and now - self._last < _STAGE_SECONDS:
            return
        self._topic, self._last = topic, now
        size = "" if done is None else f"  {done // _MIB} MiB" + (f" of {total // _MIB}" if total else "")
        self._console.print(f"{stage}{size}", style="dim", markup=False, soft_wrap=True)


class ElapsedTime:
    """Calls `on_time` regularly with the current activity and its seconds so far, between `begin` and `end`.

    It uses a thread, because the activity may block the main thread.
    """

    def __init__(self, on_time: Callable[[str, float], None], every: float = EVERY) -> None:
        self._on_time = on_time
        self._every = every
        self._ended: threading.Event | None = None

    def begin(self, activity: str | Callable[[], str]) -> None:
        """Begin an activity, and end the previous one. A function gives its text at each call of `on_time`."""
        self.end()
        self._ended = threading.Event()
        threading.Thread(target=self._report, args=(activity, self._ended), name="elapsed time", daemon=True).start()

    def end(self) -> None:
        """End the current activity, if there is one."""
        if self._ended:
            self._ended.set()
        self._ended = None

    def _report(self, activity: str | Callable[[], str], ended: threading.Event) -> None:
        began = time.monotonic()
        while not ended.wait(self._every):
            text = activity if isinstance(activity, str) else activity()
            self._on_time(text, time.monotonic() - began)
