"""Progress output on a terminal while a step takes long."""

import threading
import time
from collections.abc import Callable

EVERY = 8.0
"""Seconds between two calls of an ElapsedTime."""


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
