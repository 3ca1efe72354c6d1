"""Waits for conditions that send no event."""

import asyncio
import operator
from collections.abc import Awaitable, Callable

from tenacity import AsyncRetrying, retry_if_result, wait_fixed


async def poll(
    condition: Callable[[], Awaitable[bool]],
    interval: float,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Calls `condition` every `interval` seconds until it is true. Its errors are raised. It has no time limit."""

    async def is_true() -> bool:  # tenacity awaits only what it knows as a coroutine function
        return await condition()

    await AsyncRetrying(retry=retry_if_result(operator.not_), wait=wait_fixed(interval), sleep=sleep)(is_true)
