"""Time as an argument: what the manager and the fakes ask for it, and the ordinary answer."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Where a component takes its time from; a test gives it one that jumps (`drahealth.fakes.clock`)."""

    def now(self) -> float:
        """Monotonic seconds; only differences mean something."""

    def wall(self) -> float:
        """Unix seconds, for what outlives the process."""

    async def sleep(self, seconds: float) -> None:
        """Returns once `seconds` have passed on this clock."""


class SystemClock:
    """The machine's own time."""

    def now(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
