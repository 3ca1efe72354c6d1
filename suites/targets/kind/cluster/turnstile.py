"""Who may be on a cluster together: many that leave it as it is, or one that disturbs it. Across processes.

Two lock files. `room` is held shared or alone. Who wants to enter passes `turnstile` first, one after the other, so
that one who waits for an empty room is not overtaken by those who only pass through.
"""

import asyncio
import fcntl
import os
from pathlib import Path

_EVERY = 0.02
"""Seconds between attempts: a blocking lock would hold up the loop."""


class Turnstile:
    """One process' way in and out; `folder` is the same for all who share the cluster."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._room: int | None = None

    async def enter(self, *, alone: bool) -> None:
        """Returns once nobody is in the room whom one may not meet there. RuntimeError for one who is in already."""
        if self._room is not None:
            raise RuntimeError("one who has not left cannot enter")
        turnstile = self._open("turnstile")
        try:
            await _locked(turnstile, fcntl.LOCK_EX)
            room = self._open("room")
            try:
                await _locked(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            except BaseException:
                os.close(room)
                raise
            self._room = room
        finally:
            os.close(turnstile)

    def leave(self) -> None:
        """Out again; doing so twice is no error."""
        if self._room is not None:
            os.close(self._room)
        self._room = None

    def _open(self, name: str) -> int:
        return os.open(self._folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


async def _locked(file: int, how: int) -> None:
    while True:
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            await asyncio.sleep(_EVERY)
