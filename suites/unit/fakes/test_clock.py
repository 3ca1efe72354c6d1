"""The clock that jumps."""

import asyncio
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drahealth.fakes.clock import JumpClock
from drahealth.fakes.waiting import cancel_and_wait
from drahealth.suites.unit.endings import PATIENCE


async def settle() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


@given(st.lists(st.integers(1, 50), max_size=12), st.lists(st.integers(0, 40), max_size=4))
async def test_jump_wakes_due_sleepers_in_order_of_their_deadlines(sleeps: list[int], jumps: list[int]) -> None:
    clock = JumpClock()
    woken: list[int] = []

    async def sleeper(index: int) -> None:
        await clock.sleep(sleeps[index] - 0.5)
        woken.append(index)

    tasks = [asyncio.create_task(sleeper(index)) for index in range(len(sleeps))]
    await settle()
    for jump in jumps:
        clock.jump(jump)
        await settle()
    by_deadline = sorted(range(len(sleeps)), key=lambda index: (sleeps[index], index))
    assert woken == [index for index in by_deadline if sleeps[index] <= sum(jumps)]
    for task in tasks:
        task.cancel()


@given(st.lists(st.floats(0, 1e6), max_size=5))
def test_jump_advances_both_times(jumps: list[float]) -> None:
    clock = JumpClock()
    now, wall = clock.now() - time.monotonic(), clock.wall() - time.time()
    for jump in jumps:
        clock.jump(jump)
    moved = (clock.now() - time.monotonic() - now, clock.wall() - time.time() - wall)
    assert moved == pytest.approx((sum(jumps), sum(jumps)), abs=0.1)


async def test_real_time_alone_wakes_a_sleeper() -> None:
    clock = JumpClock()
    before = clock.now()
    await asyncio.wait_for(clock.sleep(0.01), PATIENCE)
    assert clock.now() - before >= 0.01


async def test_a_sleeper_waits_for_the_rest_of_its_time_after_a_jump() -> None:
    clock = JumpClock()
    sleeper = asyncio.create_task(clock.sleep(100.01))
    await settle()
    clock.jump(100)
    assert not sleeper.done()
    await asyncio.wait_for(sleeper, PATIENCE)


async def test_an_endless_sleep_outlasts_every_jump() -> None:
    clock = JumpClock()
    sleeper = asyncio.create_task(clock.sleep(math.inf))
    await settle()
    clock.jump(1e12)
    await settle()
    assert not sleeper.done()
    sleeper.cancel()


async def test_a_cancelled_sleeper_leaves_nothing_behind() -> None:
    clock = JumpClock()
    sleepers = [asyncio.create_task(clock.sleep(seconds)) for seconds in (10, 20)]
    await settle()
    await cancel_and_wait(*sleepers)
    assert (clock._sleepers, clock._timer) == ([], None)


@pytest.mark.parametrize("seconds", [-1, math.inf, math.nan])
def test_negative_or_infinite_jump_is_rejected(seconds: float) -> None:
    with pytest.raises(ValueError, match="jump must be"):
        JumpClock().jump(seconds)


def test_step_of_the_system_clock_is_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = JumpClock()
    before = clock.wall() - clock.now()
    stepped = time.time() + 7200
    monkeypatch.setattr(time, "time", lambda: stepped)
    clock.jump(5)
    assert clock.wall() - clock.now() == pytest.approx(before)
