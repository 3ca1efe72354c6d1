"""Polls on the clock of a run, which tests advance."""

import asyncio
from collections.abc import Callable

import pytest

from drahealth.fakes.clock import JumpClock
from drahealth.suites.driver_checks.scripted_kubelet import until
from drahealth.suites.unit.endings import PATIENCE

LIMIT = 60.0


def found_at_call(number: int) -> Callable[[], str | None]:
    calls: list[None] = []

    def look() -> str | None:
        calls.append(None)
        return "found" if len(calls) == number else None

    return look


@pytest.mark.parametrize(("number", "expected"), [(1, "found"), (3, "found"), (0, None)])
async def test_a_poll_ends_when_it_finds_something_or_at_the_limit(number: int, expected: str | None) -> None:
    clock = JumpClock()
    polling = asyncio.create_task(until(clock, LIMIT, found_at_call(number)))
    async with asyncio.timeout(PATIENCE):
        while not polling.done():
            clock.jump(1.0)
            await asyncio.sleep(0)
    assert await polling == expected


async def test_an_error_ends_a_poll() -> None:
    def look() -> None:
        raise ValueError("gone")

    with pytest.raises(ValueError, match="gone"):
        await until(JumpClock(), LIMIT, look)
