"""The time limit of a whole story."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from drahealth.suites.errors import HarnessError

STORY_LIMIT = 240.0
"""Seconds for a whole story. Each wait has its own limit, so only a hanging harness reaches this one."""


@asynccontextmanager
async def time_limit(failure: str, seconds: float = STORY_LIMIT) -> AsyncIterator[None]:
    """Raises HarnessError, with a message that begins with `failure`, if the block exceeds the limit."""
    try:
        async with asyncio.timeout(seconds) as limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise HarnessError(f"{failure} within {seconds:g} s") from None
