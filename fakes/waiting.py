"""Wait for the first of several events, or for a condition."""

import asyncio
from collections.abc import Awaitable, Callable


async def first_of(*waits: Awaitable[object]) -> None:
    """Waits until one of them ends; cancels the others and ignores all errors."""
    await _first_ended(waits)


async def run_until_first(*parts: Awaitable[object]) -> None:
    """Runs all until one of them ends; cancels the others. Raises the error of the one that ended."""
    for task in await _first_ended(parts):
        task.result()


async def _first_ended(waits: tuple[Awaitable[object], ...]) -> "set[asyncio.Future[object]]":
    """Those that ended first, usually one. All others are cancelled, and have ended."""
    tasks: list[asyncio.Future[object]] = [asyncio.ensure_future(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return done
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Changes:
    """Notifications of changes, for tasks that wait for a condition."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def notify(self) -> None:
        """Wakes the waiting tasks, which check their conditions again."""
        self._next.set()
        self._next = asyncio.Event()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits until the condition is true; checks it now and after each change."""
        while not condition():
            await self._next.wait()
