"""Who may be on a cluster together."""

import asyncio
from pathlib import Path

import pytest

from drahealth.suites.targets.kind.cluster.turnstile import Turnstile
from drahealth.suites.unit.endings import PATIENCE


async def passes(waiting: "asyncio.Task[None]") -> bool:
    """Whether it comes in within the time of a few attempts."""
    done, _ = await asyncio.wait([waiting], timeout=0.1)
    return bool(done)


async def test_those_who_disturb_nothing_are_there_together(tmp_path: Path) -> None:
    both = [Turnstile(tmp_path), Turnstile(tmp_path)]
    async with asyncio.timeout(PATIENCE):
        for one in both:
            await one.enter(alone=False)
    for one in both:
        one.leave()
        one.leave()


async def test_who_disturbs_waits_until_all_have_left_and_nobody_overtakes_it(tmp_path: Path) -> None:
    first, alone, late = (Turnstile(tmp_path) for _ in range(3))
    await first.enter(alone=False)
    disturbs = asyncio.create_task(alone.enter(alone=True))
    assert not await passes(disturbs)
    follows = asyncio.create_task(late.enter(alone=False))
    assert not await passes(follows)
    first.leave()
    assert await passes(disturbs)
    assert not await passes(follows)
    alone.leave()
    assert await passes(follows)
    late.leave()


async def test_one_that_waits_and_gives_up_is_in_nobodys_way(tmp_path: Path) -> None:
    inside, waits, other = (Turnstile(tmp_path) for _ in range(3))
    await inside.enter(alone=True)
    waiting = asyncio.create_task(waits.enter(alone=True))
    assert not await passes(waiting)
    waiting.cancel()
    await asyncio.wait([waiting])
    inside.leave()
    async with asyncio.timeout(PATIENCE):
        await other.enter(alone=False)
    other.leave()


async def test_one_who_is_in_cannot_enter_again(tmp_path: Path) -> None:
    one = Turnstile(tmp_path)
    await one.enter(alone=False)
    with pytest.raises(RuntimeError, match="has not left"):
        await one.enter(alone=True)
    one.leave()
    await asyncio.wait_for(one.enter(alone=True), PATIENCE)
    one.leave()
