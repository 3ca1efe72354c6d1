"""Wait for the first of several events, or for a condition."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


async def first_of(*waits: Coroutine[Any, Any, object]) -> None:
    """Waits until one of them ends; cancels the others and ignores their errors."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
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
