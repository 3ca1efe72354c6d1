"""Programs that SIGTERM and Ctrl-C end in order."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_terminable(work: Coroutine[Any, Any, T]) -> T:
    """Runs it to its end. SIGTERM and SIGINT cancel it, so that it ends everything that it started.

    Raises asyncio.CancelledError if it ends by that.
    """
    before = signal.getsignal(signal.SIGTERM)
    try:
        return asyncio.run(_terminable(work))
    finally:
        signal.signal(signal.SIGTERM, before)  # asyncio restores only that of SIGINT


async def _terminable(work: Coroutine[Any, Any, T]) -> T:
    task = asyncio.ensure_future(work)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await task
