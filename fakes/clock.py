"""A clock with simulated time: real time plus all jumps. A test jumps instead of waiting.

A sleeper wakes when the clock passes its deadline, by real time or by `jump`. Sleepers with the same deadline wake in
order. It is passed as an argument, like trio's test clock. Unlike that one, it jumps only when `jump` is called.
"""

import asyncio
import math
import time
from bisect import insort
from dataclasses import dataclass, field
from itertools import count


@dataclass(order=True, slots=True)
class _Sleeper:
    deadline: float
    number: int
    woken: asyncio.Future[None] = field(compare=False)


class JumpClock:
    """A `drahealth.proto.clock.Clock` that runs in real time, and can also jump forward."""

    def __init__(self) -> None:
        self._jumped = 0.0
        self._wall_ahead = time.time() - time.monotonic()  # a step of the system clock must not expire devices
        self._sleepers: list[_Sleeper] = []
        self._numbers = count()
        self._timer: asyncio.TimerHandle | None = None

    def now(self) -> float:
        """Monotonic seconds; only differences are meaningful."""
        return time.monotonic() + self._jumped

    def wall(self) -> float:
        """Unix seconds by the system clock when this clock began, jumps included. It passes as `now` does."""
        return self._wall_ahead + self.now()

    async def sleep(self, seconds: float) -> None:
        """Returns after `seconds` on this clock; `math.inf` sleeps until cancelled."""
        if seconds <= 0:
            return await asyncio.sleep(0)
        woken = asyncio.get_running_loop().create_future()
        sleeper = _Sleeper(self.now() + seconds, next(self._numbers), woken)
        insort(self._sleepers, sleeper)
        self._wake()
        try:
            await woken
        finally:
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)
                self._wake()

    def jump(self, seconds: float) -> None:
        """Advances the clock at once and wakes all due sleepers. Raises ValueError for a negative or infinite jump."""
        if not 0 <= seconds < float("inf"):
            raise ValueError(f"jump must be a finite number of seconds, at least 0, got {seconds}")
        self._jumped += seconds
        self._wake()

    def pending(self) -> frozenset[int]:
        """The numbers of all sleepers that a jump can wake. A number is never used again."""
        return frozenset(sleeper.number for sleeper in self._sleepers if sleeper.deadline < math.inf)

    def _wake(self) -> None:
        now = self.now()
        while self._sleepers and self._sleepers[0].deadline <= now:
            sleeper = self._sleepers.pop(0)
            if not sleeper.woken.done():
                sleeper.woken.set_result(None)
        self._schedule_next(now)

    def _schedule_next(self, now: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._sleepers and self._sleepers[0].deadline < float("inf"):
            loop = self._sleepers[0].woken.get_loop()
            self._timer = loop.call_later(self._sleepers[0].deadline - now, self._wake)
