"""Waiting for the first of several parts."""

import asyncio
from collections.abc import Awaitable
from typing import Any


async def first_of(*parts: Awaitable[Any]) -> None:
    """Runs all until the first one ends, and cancels the others. Raises the error of the first one."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
