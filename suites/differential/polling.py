"""Waiting for what no event tells of."""

import asyncio
from collections.abc import Awaitable, Callable

_PAUSE = 0.02


async def comes_true(true: Callable[[], Awaitable[bool]], seconds: float) -> bool:
    """Asks again and again; False once `seconds` have passed."""
    try:
        async with asyncio.timeout(seconds):
            while not await true():  # noqa: ASYNC110 (what is asked has no event)
                await asyncio.sleep(_PAUSE)
    except TimeoutError:
        return False
    return True
