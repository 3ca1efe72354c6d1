"""Shared and exclusive locks of a cluster."""

import asyncio
from pathlib import Path

import pytest

from drahealth.suites.targets.kind.cluster import ClusterLock
from drahealth.suites.unit.endings import PATIENCE


async def passes(waiting: "asyncio.Task[None]") -> bool:
    """Whether it comes in within the time of a few attempts."""
    done, _ = await asyncio.wait([waiting], timeout=0.1)
    return bool(done)


async def test_shared_locks_are_held_together(tmp_path: Path) -> None:
    both = [ClusterLock(tmp_path), ClusterLock(tmp_path)]
    async with asyncio.timeout(PATIENCE):
        for one in both:
            await one.enter(alone=False)
    for one in both:
        one.leave()
        one.leave()


async def test_an_exclusive_lock_waits_for_shared_ones_and_is_not_overtaken(tmp_path: Path) -> None:
    first, alone, late = (ClusterLock(tmp_path) for _ in range(3))
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


async def test_a_cancelled_wait_for_the_lock_blocks_no_other(tmp_path: Path) -> None:
    inside, waits, other = (ClusterLock(tmp_path) for _ in range(3))
    await inside.enter(alone=True)
    waiting = asyncio.create_task(waits.enter(alone=True))
    assert not await passes(waiting)
    waiting.cancel()
    await asyncio.wait([waiting])
    inside.leave()
    async with asyncio.timeout(PATIENCE):
        await other.enter(alone=False)
    other.leave()


async def test_a_held_lock_cannot_be_taken_again(tmp_path: Path) -> None:
    one = ClusterLock(tmp_path)
    await one.enter(alone=False)
    with pytest.raises(RuntimeError, match="holds the lock"):
        await one.enter(alone=True)
    one.leave()
    await asyncio.wait_for(one.enter(alone=True), PATIENCE)
    one.leave()
