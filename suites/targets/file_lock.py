"""Waits for a lock of an open file, flock(2), without blocking the event loop."""

import fcntl

from drahealth.suites.targets.polling import poll


async def lock(file: int, how: int, interval: float) -> None:
    """Locks the file, with `fcntl.LOCK_SH` or `fcntl.LOCK_EX`. Tries again every `interval` seconds, without limit."""

    async def is_locked() -> bool:
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    await poll(is_locked, interval)
