"""A lock on a cluster across processes: shared by many scenarios, or exclusive for one that disrupts the cluster.

It uses two lock files. `users` is held shared or exclusive. Before it every process takes `queue`, one after the other.
So a process that waits for the exclusive lock is not overtaken by new shared ones.
"""

import fcntl
import os
from pathlib import Path

from drahealth.suites.targets.file_lock import lock

_EVERY = 0.02
"""Seconds between attempts."""


class ClusterLock:
    """The lock of one process; all processes that share the cluster use the same `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: int | None = None

    async def enter(self, *, alone: bool) -> None:
        """Takes the lock: exclusive if `alone`. Raises RuntimeError if this process holds it."""
        if self._held is not None:
            raise RuntimeError("this process holds the lock")
        queue = self._open("queue")
        try:
            await lock(queue, fcntl.LOCK_EX, _EVERY)
            users = self._open("users")
            try:
                await lock(users, fcntl.LOCK_EX if alone else fcntl.LOCK_SH, _EVERY)
            except BaseException:
                os.close(users)
                raise
            self._held = users
        finally:
            os.close(queue)

    def leave(self) -> None:
        """Releases the lock; harmless if it is released."""
        if self._held is not None:
            os.close(self._held)
        self._held = None

    def _open(self, name: str) -> int:
        return os.open(self._folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
