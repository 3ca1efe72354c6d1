"""Waits with a limit on the clock of a run, so that tests can advance time."""

import asyncio
import operator
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from tenacity import AsyncRetrying, retry_if_result, wait_fixed

from drahealth.proto.clock import Clock

T = TypeVar("T")

PAUSE = 0.05
"""Seconds between two looks at something that sends no events, such as a directory."""


async def within(clock: Clock, seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled at the limit. Raises TimeoutError."""
    task, limit = asyncio.create_task(work), asyncio.create_task(clock.sleep(seconds))
    try:
        await asyncio.wait([task, limit], return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise TimeoutError
    finally:
        for one in (task, limit):
            one.cancel()
        await asyncio.gather(task, limit, return_exceptions=True)


async def until(clock: Clock, seconds: float, look: Callable[[], T | None]) -> T | None:
    """What `look` returns as soon as it is true; None at the limit. An exception of `look` ends the wait."""
    end = clock.now() + seconds

    async def found() -> T | None:
        return look()

    polling = AsyncRetrying(
        sleep=clock.sleep,
        wait=wait_fixed(PAUSE),
        retry=retry_if_result(operator.not_),
        stop=lambda _: clock.now() >= end,
        retry_error_callback=lambda _: None,
    )
    return await polling(found)
