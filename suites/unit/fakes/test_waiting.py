"""Polls and waits with a limit on a clock that tests advance."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from drahealth.fakes.clock import JumpClock
from drahealth.fakes.waiting import Changes, poll
from drahealth.suites.unit.endings import PATIENCE

LIMIT = 60.0


def true_at_call(number: int) -> Callable[[], bool]:
    calls: list[None] = []

    def look() -> bool:
        calls.append(None)
        return len(calls) == number

    return look


async def result(clock: JumpClock, wait: Coroutine[Any, Any, bool]) -> bool:
    waiting = asyncio.create_task(wait)
    async with asyncio.timeout(PATIENCE):
        while not waiting.done():
            clock.jump(1.0)
            await asyncio.sleep(0)
    return await waiting


@pytest.mark.parametrize(("number", "expected"), [(1, True), (3, True), (0, False)])
async def test_a_poll_ends_when_it_is_true_or_at_the_limit(number: int, expected: bool) -> None:
    clock = JumpClock()
    assert await result(clock, poll(true_at_call(number), 0.05, LIMIT, clock)) is expected


async def test_a_call_in_progress_ends_at_the_limit() -> None:
    async def look() -> bool:
        await asyncio.Event().wait()
        return True

    clock = JumpClock()
    assert await result(clock, poll(look, 0.05, LIMIT, clock)) is False


@pytest.mark.parametrize("error", [ValueError("gone"), TimeoutError("of the call itself")])
async def test_an_error_ends_a_poll(error: Exception) -> None:
    async def look() -> bool:
        raise error

    with pytest.raises(type(error), match=str(error)):
        await poll(look, 0.05, LIMIT, JumpClock())


async def test_a_wait_for_changes_ends_at_the_limit() -> None:
    clock, changes = JumpClock(), Changes()
    assert await result(clock, changes.until_within(lambda: False, LIMIT, clock)) is False


async def test_a_wait_for_changes_looks_again_after_each() -> None:
    clock, changes = JumpClock(), Changes()
    waiting = asyncio.create_task(changes.until_within(true_at_call(3), LIMIT, clock))
    async with asyncio.timeout(PATIENCE):
        while not waiting.done():
            changes.notify()
            await asyncio.sleep(0)
    assert await waiting is True
