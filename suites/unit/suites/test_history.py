"""The history of a scenario: its records, and waiting for conditions."""

import asyncio
import time

import pytest

from drahealth.proto.events import Record, Restarted, StatusSeen, Step
from drahealth.suites.story.history import History
from drahealth.suites.unit.endings import PATIENCE


async def test_a_condition_that_is_already_true_does_not_wait() -> None:
    assert await History().until(lambda: True, 0)


async def test_a_waiter_wakes_at_the_event() -> None:
    history = History()
    waiting = asyncio.create_task(history.until(lambda: any(history.of(Restarted)), 60))
    await asyncio.sleep(0)
    history.observe(Restarted("kubelet"))
    assert await asyncio.wait_for(waiting, PATIENCE)


async def test_other_events_do_not_end_the_wait() -> None:
    history = History()
    waiting = asyncio.create_task(history.until(lambda: len(history.records) == 3, 60))
    for number in range(3):
        await asyncio.sleep(0)
        assert not waiting.done()
        history.observe(Step(f"step {number}"))
    assert await asyncio.wait_for(waiting, PATIENCE)


async def test_every_waiter_wakes() -> None:
    history = History()
    waiting = [asyncio.create_task(history.until(lambda: bool(history.records), 60)) for _ in range(3)]
    await asyncio.sleep(0)
    history.observe(Step("now"))
    assert await asyncio.wait_for(asyncio.gather(*waiting), PATIENCE) == [True, True, True]


async def test_a_missing_event_ends_the_wait_at_its_limit() -> None:
    history, start = History(), time.monotonic()
    assert not await history.until(lambda: False, 0.02)
    assert time.monotonic() - start >= 0.02


@pytest.mark.parametrize(("longest", "met"), [(PATIENCE, True), (0.0, False)])
async def test_a_wait_begins_again_with_each_pod_status_if_it_may_be_longer(longest: float, met: bool) -> None:
    history = History()
    waiting = asyncio.create_task(history.until(lambda: len(history.records) == 5, 0.05, longest))
    for number in range(5):
        await asyncio.sleep(0)
        time.sleep(0.06)  # noqa: ASYNC251  a machine that is too slow for the wait, each time
        history.observe(StatusSeen("pod", str(number), "Running", ()))
    assert await asyncio.wait_for(waiting, PATIENCE) == met


@pytest.mark.parametrize(("longest", "met"), [(PATIENCE, True), (0.0, False)])
async def test_time_without_a_processor_does_not_count_if_the_wait_may_be_longer(longest: float, met: bool) -> None:
    def delay() -> float:
        delays.append(PATIENCE)
        if len(delays) == 2:  # the wait has reached its limit
            asyncio.get_running_loop().call_soon(history.observe, Step("late"))
        return sum(delays)

    delays: list[float] = []
    history = History(delay)
    assert await history.until(lambda: bool(history.records), 0.5, longest) == met


async def test_a_delay_at_most_doubles_the_wait() -> None:
    delays = iter(range(0, 100_000, 100))
    start = time.monotonic()
    assert not await History(lambda: next(delays)).until(lambda: False, 1, PATIENCE)
    assert 1.5 < time.monotonic() - start < PATIENCE


async def test_a_condition_without_an_event_is_checked_at_the_limit() -> None:
    came = False

    def comes() -> None:
        nonlocal came
        came = True

    asyncio.get_running_loop().call_later(0.01, comes)
    assert await History().until(lambda: came, 0.02)


async def test_a_timeout_of_the_caller_is_not_the_end_of_the_window() -> None:
    waiting = asyncio.create_task(History().until(lambda: False, 60))
    await asyncio.wait([waiting], timeout=0.01)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()


def test_events_of_one_type_are_in_order() -> None:
    history = History()
    for event in (Step("one"), Restarted("kubelet"), Step("two")):
        history.observe(event)
    assert list(history.of(Step)) == [Step("one"), Step("two")]


def test_a_late_event_of_another_process_is_sorted_by_time() -> None:
    history = History()
    for at, text in ((1.0, "first"), (3.0, "third"), (3.0, "third too"), (2.0, "second")):
        history.add(Record(at, Step(text)))
    assert [step.text for step in history.of(Step)] == ["first", "second", "third", "third too"]
