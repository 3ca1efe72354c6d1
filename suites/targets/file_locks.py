"""Waits for locks of files."""

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import filelock

from drahealth.fakes.waiting import poll

# Waits for a lock of an open file, flock(2), without blocking the event loop.


async def lock(file: int, how: int, interval: float) -> None:
    """Locks the file, with `fcntl.LOCK_SH` or `fcntl.LOCK_EX`. Tries again every `interval` seconds, without limit."""

    def is_locked() -> bool:
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    await poll(is_locked, interval)


# Holds the lock of a file, and tells while it waits for another process. The lock ends with its process.

POLL = 0.1
"""Seconds between two attempts."""


@contextmanager
def held(lock: filelock.BaseFileLock, waiting: Callable[[float], None], again: float) -> Iterator[None]:
    """Holds the lock in the block. Waits for it without a limit.

    While another process has it, `waiting` gets the seconds so far: at once, and then every `again` seconds; -1: only
    at once. Raises OSError.
    """
    since, patience = time.monotonic(), 0.0
    while True:
        try:
            lock.acquire(timeout=patience, poll_interval=POLL)
            break
        except filelock.Timeout:
            patience = again
            waiting(time.monotonic() - since)
    try:
        yield
    finally:
        lock.release()
