"""Waiting for whichever of several things comes first."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


async def first_of(*waits: Coroutine[Any, Any, object]) -> None:
    """Until one of them is over; the others are cancelled, and what they raise is not told."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Changes:
    """Things that change, and those who wait until they are so."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def tell(self) -> None:
        """Something has changed."""
        self._next.set()
        self._next = asyncio.Event()

    async def until(self, true: Callable[[], bool]) -> None:
        """Returns once it is true, which is looked at now and after each change."""
        while not true():
            await self._next.wait()
