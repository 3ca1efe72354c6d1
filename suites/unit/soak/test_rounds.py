"""The time of the players of a round, and how disruptions are kept apart from steps."""

import asyncio

import pytest

from drahealth.suites.soak.rounds import SharedTime


class Clock:
    """Time that passes at once."""

    def __init__(self) -> None:
        self.now = 0.0

    async def advance(self, seconds: float) -> None:
        await asyncio.sleep(0)
        self.now += seconds


async def player(shared: SharedTime, clock: Clock, seen: list[tuple[str, float]], name: str, *waits: float) -> None:
    await shared.begin()
    for seconds in waits:
        await shared.passes(seconds)
        seen.append((name, clock.now))
    shared.leave()


async def test_simulated_time_passes_only_while_all_players_wait() -> None:
    clock, seen = Clock(), list[tuple[str, float]]()
    shared = SharedTime(2, clock.advance, simulated=True)
    await asyncio.gather(player(shared, clock, seen, "a", 1, 5, 1), player(shared, clock, seen, "b", 4, 4))
    assert seen == [("a", 1), ("b", 4), ("a", 6), ("a", 7), ("b", 8)]


async def test_player_that_has_ended_stops_no_other_one() -> None:
    clock, seen = Clock(), list[tuple[str, float]]()
    shared = SharedTime(2, clock.advance, simulated=True)
    await asyncio.gather(player(shared, clock, seen, "a"), player(shared, clock, seen, "b", 3))
    assert seen == [("b", 3)]


async def test_error_while_time_passes_reaches_each_player() -> None:
    async def fail(seconds: float) -> None:
        raise OSError(f"{seconds:g} s")

    shared = SharedTime(1, fail, simulated=True)
    with pytest.raises(OSError, match="2 s"):
        await shared.passes(2)


async def test_step_waits_for_the_end_of_a_disruption_while_time_passes() -> None:
    clock, seen = Clock(), list[tuple[str, float]]()
    shared = SharedTime(2, clock.advance, simulated=True)

    async def outage() -> None:
        await shared.begin()
        async with shared.disruption():
            await shared.passes(9)
        seen.append(("outage", clock.now))
        shared.leave()

    async def step() -> None:
        await shared.begin()
        await shared.passes(2)
        async with shared.undisturbed():
            seen.append(("step", clock.now))
        shared.leave()

    await asyncio.gather(outage(), step())
    assert seen == [("outage", 9), ("step", 9)]


async def test_disruption_waits_for_the_end_of_a_step() -> None:
    clock, seen = Clock(), list[str]()
    shared, registered = SharedTime(2, clock.advance, simulated=True), asyncio.Event()

    async def step() -> None:
        async with shared.undisturbed():
            await shared.begin()
            await registered.wait()
            seen.append("step")
        shared.leave()

    async def outage() -> None:
        await shared.begin()
        asyncio.get_running_loop().call_soon(registered.set)
        async with shared.disruption():
            seen.append("outage")
        shared.leave()

    await asyncio.gather(step(), outage())
    assert seen == ["step", "outage"]
