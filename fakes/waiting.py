"""Waits: for the first of several events, for a condition, and before the next attempt."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from drahealth.proto.clock import SYSTEM_CLOCK, Clock

T = TypeVar("T")

# Wait for the first of several events, with a limit, or for a condition.


async def first_of(*waits: Awaitable[object]) -> None:
    """Waits until one of them ends; cancels the others and ignores all errors."""
    await _first_ended(waits)


async def run_until_first(*parts: Awaitable[object]) -> None:
    """Runs all until one of them ends; cancels the others. Raises the error of the one that ended."""
    for task in await _first_ended(parts):
        task.result()


async def _first_ended(waits: tuple[Awaitable[object], ...]) -> "set[asyncio.Future[object]]":
    """Those that ended first, usually one. All others are cancelled, and have ended."""
    tasks: list[asyncio.Future[object]] = [asyncio.ensure_future(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return done
    finally:
        await cancel_and_wait(*tasks)


async def cancel_and_wait(*tasks: "asyncio.Future[Any]") -> None:
    """Cancels the tasks, and returns when they have ended. Their errors are ignored."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def in_background(work: Coroutine[Any, Any, object], name: str) -> AsyncIterator[None]:
    """Runs `work` during the block, and cancels it at the end. Its errors are ignored."""
    task = asyncio.create_task(work, name=name)
    try:
        yield
    finally:
        await cancel_and_wait(task)


async def within(clock: Clock, seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled at the limit. Raises TimeoutError."""
    task = await _limited(clock, seconds, work)
    if task.cancelled():
        raise TimeoutError
    return task.result()


async def _limited(clock: Clock, seconds: float, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """The task of `work`, which has ended, or is cancelled at the limit."""
    task, limit = asyncio.create_task(work), asyncio.create_task(clock.sleep(seconds))
    try:
        await asyncio.wait([task, limit], return_when=asyncio.FIRST_COMPLETED)
        return task
    finally:
        await cancel_and_wait(task, limit)


async def poll(
    look: Callable[[], bool | Awaitable[bool]],
    interval: float,
    limit: float = math.inf,
    clock: Clock = SYSTEM_CLOCK,
) -> bool:
    """Calls `look` every `interval` seconds, until it is true or for `limit` seconds. Returns whether it became true.

    For conditions that send no event; `Changes` is for all others. A call in progress is cancelled at the limit. Errors
    of `look` are raised.
    """

    async def looking() -> None:
        while True:
            found = look()
            if found if isinstance(found, bool) else await found:
                return
            await clock.sleep(interval)

    if limit == math.inf:
        await looking()
        return True
    task = await _limited(clock, limit, looking())
    if not task.cancelled():
        task.result()
    return not task.cancelled()


class Changes:
    """Notifications of changes, for tasks that wait for a condition."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def notify(self) -> None:
        """Wakes the waiting tasks, which check their conditions again."""
        self._next.set()
        self._next = asyncio.Event()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits until the condition is true; checks it now and after each change."""
        while not condition():
            await self._next.wait()

    async def until_within(self, condition: Callable[[], bool], seconds: float, clock: Clock) -> bool:
        """As `until`, but for at most so many seconds. Returns whether the condition is true."""
        try:
            await within(clock, seconds, self.until(condition))
        except TimeoutError:
            return condition()
        return True


# The wait before the next attempt. Pure: the time is an argument.


class Retry:
    """Seconds between attempts of an operation that should succeed soon: they double up to a limit."""

    def __init__(self, first: float = 0.1, limit: float = 10.0) -> None:
        self._first = first
        self._limit = limit
        self._next = first

    def next(self) -> float:
        """Seconds until the next attempt."""
        seconds, self._next = self._next, min(self._next * 2, self._limit)
        return seconds

    def reset(self) -> None:
        """Starts from the beginning after a success."""
        self._next = self._first


class CrashLoop:
    """The time at which an exited container can start again, as in a kubelet.

    The first restart is immediate, the next ones follow 10 s after the exit, doubling to 300 s. A container that ran
    for more than 600 s since its last restart starts over. All times are Unix seconds.
    """

    FIRST = 10.0
    LIMIT = 300.0
    FORGIVEN_AFTER = 600.0

    def __init__(self) -> None:
        self.delay = 0.0
        """Seconds between an exit and the restart; 0: at once."""
        self._restarted = -math.inf

    def left(self, exited: float, now: float) -> float:
        """Seconds until a container that exited then can start again; 0 or less: now."""
        return 0.0 if self._is_forgiven(exited) else exited + self.delay - now

    def restart(self, exited: float, now: float) -> None:
        """Records a restart of a container that exited then."""
        grown = min(self.delay * 2, self.LIMIT) if self.delay else self.FIRST
        self.delay = self.FIRST if self._is_forgiven(exited) else grown
        self._restarted = now

    def _is_forgiven(self, exited: float) -> bool:
        return exited - self._restarted > self.FORGIVEN_AFTER
