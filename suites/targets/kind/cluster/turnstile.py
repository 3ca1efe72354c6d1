"""A lock on a cluster across processes: shared by many scenarios, or exclusive for one that disrupts the cluster.

It uses two lock files. `room` is held shared or exclusive. Before it every process takes `turnstile`, one after the
other. So a process that waits for the exclusive lock is not overtaken by new shared ones.
"""

import asyncio
import fcntl
import os
from pathlib import Path

_EVERY = 0.02
"""Seconds between attempts: a blocking lock would block the event loop."""


class Turnstile:
    """The lock of one process; all processes that share the cluster use the same `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._room: int | None = None

    async def enter(self, *, alone: bool) -> None:
        """Takes the lock: exclusive if `alone`. Raises RuntimeError if this process holds it."""
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
        """Releases the lock; harmless if it is released."""
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
