"""How long a story may take as a whole."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from drahealth.suites.errors import HarnessError

PATIENCE = 240.0
"""Seconds for a whole story; each wait has a limit of its own, so only a hanging harness comes here."""


@asynccontextmanager
async def patient(failure: str, seconds: float = PATIENCE) -> AsyncIterator[None]:
    """HarnessError, which begins so, for what takes longer than anything should."""
    try:
        async with asyncio.timeout(seconds) as patience:
            yield
    except TimeoutError:
        if not patience.expired():
            raise
        raise HarnessError(f"{failure} within {seconds:g} s") from None
