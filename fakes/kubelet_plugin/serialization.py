"""One prepare or unprepare call at a time, in this process and, by a locked file, in all instances of a driver."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

LOCK_FILE = "serialize.lock"


class Turns:
    """Who is next. `folder` is where other instances are locked out; None: there are none."""

    def __init__(self, folder: Path | None) -> None:
        self._mine = asyncio.Lock()
        self._folder = folder

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Waits for its turn, without holding up anything else here. Raises OSError where no file can be locked."""
        async with self._mine:
            if self._folder is None:
                yield
                return
            from filelock import AsyncFileLock  # only rolling updates need it

            async with AsyncFileLock(self._folder / LOCK_FILE):
                yield


class NoTurns(Turns):
    """Everybody at once."""

    def __init__(self) -> None:
        super().__init__(None)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        yield
