"""Serialize prepare and unprepare calls, in this process and, with a lock file, between instances of a driver."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

LOCK_FILE = "serialize.lock"


class CallLock:
    """Admits one call at a time. `folder` holds the lock file that instances share; None: there is one instance."""

    def __init__(self, folder: Path | None) -> None:
        self._lock = asyncio.Lock()
        self._folder = folder

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Holds the lock; waiting does not block the event loop. Raises OSError if the file cannot be locked."""
        async with self._lock:
            if self._folder is None:
                yield
                return
            from filelock import AsyncFileLock  # only rolling updates need it

            async with AsyncFileLock(self._folder / LOCK_FILE):
                yield


class NoLock(CallLock):
    """Admits all calls at once."""

    def __init__(self) -> None:
        super().__init__(None)

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        yield
