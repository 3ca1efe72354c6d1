"""Played plans: action times, expectations, and the reset at the end."""

import asyncio

import pytest

from drahealth.fakes.inventory.devices import Inventory
from drahealth.fakes.timelines.load import load
from drahealth.fakes.timelines.model import Trigger
from drahealth.fakes.timelines.plan import Action, Plan, plan
from drahealth.fakes.timelines.play import play
from drahealth.fakes.waiting import cancel_and_wait


class StillClock:
    """Time that passes when a test advances it."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time

    def wall(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds


class Rehearsal:
    """A stage that writes down what happens on it; `takes` seconds pass while something is expected."""

    def __init__(self, takes: float = 0.0, fails_at: str = "") -> None:
        self.clock = StillClock()
        self.log: list[tuple[float, str]] = []
        self.happened = asyncio.Event()
        self._takes = takes
        self._fails_at = fails_at

    async def passes(self, seconds: float) -> None:
        await asyncio.sleep(0)
        await self.clock.sleep(seconds)

    async def act(self, action: Action) -> None:
        self._note(f"{action.verb} {action.what}")

    async def expect(self, action: Action) -> None:
        await self.clock.sleep(self._takes)
        self._note(f"expect {action.what['health']}")

    async def held(self, action: Action) -> None:
        self._note(f"held {action.what['health']}")

    async def happens(self, trigger: Trigger) -> None:
        await self.happened.wait()

    def _note(self, text: str) -> None:
        if text == self._fails_at:
            raise AssertionError(text)
        self.log.append((round(self.clock.time, 3), text))


def planned(steps: str, always: str = "[]") -> Plan:
    (loaded,) = load(f"format: fault-timeline/v1\nname: n\ntimeline: {steps}\nalways: {always}\n")
    return plan(loaded.timeline, Inventory.of(1))


async def test_a_plan_is_played_at_its_times() -> None:
    stage = Rehearsal()
    await play(planned("[{mark: a, at: 1s}, {mark: b, after: 2s}]", "[{reset: true}]"), stage)
    assert stage.log == [(1, "mark a"), (3, "mark b"), (3, "reset None")]


async def test_speed_2_halves_the_action_times() -> None:
    stage = Rehearsal()
    await play(planned("[{mark: a, at: 1s}, {mark: b, after: 2s}]"), stage, speed=2)
    assert stage.log == [(0.5, "mark a"), (1.5, "mark b")]


async def test_overdue_steps_run_at_once_after_a_slow_expectation() -> None:
    stage = Rehearsal(takes=3)
    await play(planned("[{expect: {health: Healthy}}, {mark: a, at: 1s}, {mark: b, at: 5s}]"), stage)
    assert stage.log == [(3, "expect Healthy"), (3, "mark a"), (5, "mark b")]


async def test_holds_is_checked_at_the_end_of_its_duration() -> None:
    stage = Rehearsal(takes=1)
    await play(planned("[{expect: {health: Healthy}, holds: 10s}, {mark: a, at: 2s}]"), stage)
    assert stage.log == [(1, "expect Healthy"), (2, "mark a"), (11, "held Healthy")]


async def test_next_step_waits_for_the_end_of_holds() -> None:
    stage = Rehearsal(takes=1)
    steps = "[{expect: {health: Healthy}, holds: 10s}, {mark: a}, {mark: b, after: 2s}]"
    await play(planned(steps), stage, speed=2)
    assert stage.log == [(1, "expect Healthy"), (6, "held Healthy"), (6, "mark a"), (6, "mark b")]


async def test_holds_is_checked_in_always_steps() -> None:
    stage = Rehearsal()
    await play(planned("[{mark: a}]", "[{expect: {health: Healthy}, holds: 4s}, {reset: true}]"), stage)
    assert stage.log == [(0, "mark a"), (0, "expect Healthy"), (4, "held Healthy"), (4, "reset None")]


async def test_always_steps_run_after_a_failed_step() -> None:
    stage = Rehearsal(fails_at="mark a")
    story = planned("[{driver: crash}, {mark: a, at: 1s}, {mark: b}]", "[{mark: a}, {driver: start}, {reset: true}]")
    with pytest.raises(AssertionError, match="mark a"):
        await play(story, stage)
    assert [text for _, text in stage.log] == ["crash None", "start None", "reset None"]


async def test_errors_of_always_steps_do_not_hide_the_first_error() -> None:
    class Broken(Rehearsal):
        """A stage on which nothing can be done."""

        async def act(self, action: Action) -> None:
            raise AssertionError(action.what)

    with pytest.raises(AssertionError, match="story") as failed:
        await play(planned("[{mark: story}]", "[{mark: first}, {mark: second}]"), Broken())
    assert failed.value.__notes__ == ["at the end: first", "at the end: second"]


class LongWait(Rehearsal):
    """A stage on which an hour does not pass."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = asyncio.Event()

    async def passes(self, seconds: float) -> None:
        if seconds > 60:
            self.waits.set()
            await asyncio.Event().wait()
        await super().passes(seconds)


async def test_cancelled_timeline_runs_its_always_steps() -> None:
    stage = LongWait()
    story = planned("[{when: {calls: 1}, mark: never}, {at: 1s, mark: a}, {at: 1h, mark: late}]", "[{reset: true}]")
    playing = asyncio.create_task(play(story, stage))
    await stage.waits.wait()
    await cancel_and_wait(playing)
    assert [text for _, text in stage.log] == ["mark a", "reset None"]


async def test_steps_after_a_trigger_run_in_order() -> None:
    stage = Rehearsal()
    stage.happened.set()
    await play(planned("[{when: {seen: Unhealthy}, mark: a}, {mark: b, after: 2s}, {mark: c, at: 9s}]"), stage)
    assert [text for _, text in stage.log] == ["mark a", "mark b", "mark c"]


async def test_triggered_last_step_is_played() -> None:
    stage = Rehearsal()
    stage.happened.set()
    assert await play(planned("[{mark: a}, {when: {seen: Unhealthy}, mark: b}]"), stage) == ()
    assert [text for _, text in stage.log] == ["mark a", "mark b"]


async def test_untriggered_steps_are_skipped_and_returned() -> None:
    stage = Rehearsal()
    left = await play(planned("[{when: {seen: Unhealthy}, mark: a}, {mark: b, after: 2s}, {mark: c, at: 9s}]"), stage)
    assert ([action.what for action in left], stage.log) == (["a", "b"], [(9, "mark c")])


async def test_a_trigger_cuts_a_long_wait_short() -> None:
    stage = LongWait()
    story = planned("[{when: {seen: Unhealthy}, mark: a}, {at: 1h, mark: late}]")
    playing = asyncio.create_task(play(story, stage))
    await stage.waits.wait()
    stage.waits.clear()
    stage.happened.set()
    await stage.waits.wait()
    await cancel_and_wait(playing)
    assert stage.log == [(0, "mark a")]


async def test_speed_0_is_rejected() -> None:
    with pytest.raises(ValueError, match="speed"):
        await play(planned("[{mark: a}]"), Rehearsal(), speed=0)
