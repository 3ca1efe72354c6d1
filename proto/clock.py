"""Time as an argument: the interface that the manager and the fakes use, and the system clock."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """A source of time. Tests use one that they can move forward (`drahealth.fakes.clock`)."""

    def now(self) -> float:
        """Monotonic seconds; only differences are meaningful."""

    def wall(self) -> float:
        """Unix seconds, for values that outlive the process."""

    async def sleep(self, seconds: float) -> None:
        """Returns after `seconds` on this clock."""


def format_seconds(seconds: float) -> str:
    """A time or a duration for people, such as `30.9 s` or `0.034 s`. Milliseconds matter only below one second."""
    return f"{round(seconds, 1 if abs(seconds) >= 1 else 3):.10g} s"


class SystemClock:
    """The system clock."""

    def now(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


SYSTEM_CLOCK = SystemClock()
