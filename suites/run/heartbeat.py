"""A sign of life while something takes long: a thread, since what takes long holds up all else."""

import threading
import time
from collections.abc import Callable

EVERY = 8.0
"""Seconds between signs."""


class Heartbeat:
    """Says what is under way, and for how many seconds it has been; nothing between `ends` and `begins`."""

    def __init__(self, say: Callable[[str, float], None], every: float = EVERY) -> None:
        self._say = say
        self._every = every
        self._ended: threading.Event | None = None

    def begins(self, what: str) -> None:
        """It is this now, whatever it was before."""
        self.ends()
        self._ended = threading.Event()
        threading.Thread(target=self._beat, args=(what, self._ended), name="heartbeat", daemon=True).start()

    def ends(self) -> None:
        """Nothing is under way; doing so twice is no error."""
        if self._ended:
            self._ended.set()
        self._ended = None

    def _beat(self, what: str, ended: threading.Event) -> None:
        began = time.monotonic()
        while not ended.wait(self._every):
            self._say(what, time.monotonic() - began)
