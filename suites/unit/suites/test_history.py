"""The history of a scenario: what it holds, and waiting for what is to happen."""

import asyncio
import time

from drahealth.proto.events import Record, Restarted, Step
from drahealth.suites.story.history import History
from drahealth.suites.unit.endings import PATIENCE


async def test_what_is_there_already_is_not_waited_for() -> None:
    assert await History().until(lambda: True, 0)


async def test_a_waiter_wakes_when_the_event_comes() -> None:
    history = History()
    waiting = asyncio.create_task(history.until(lambda: any(history.of(Restarted)), 60))
    await asyncio.sleep(0)
    history.observe(Restarted("kubelet"))
    assert await asyncio.wait_for(waiting, PATIENCE)


async def test_events_of_no_interest_let_a_waiter_wait_on() -> None:
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


async def test_what_does_not_come_is_waited_for_as_long_as_was_said() -> None:
    history, start = History(), time.monotonic()
    assert not await history.until(lambda: False, 0.02)
    assert time.monotonic() - start >= 0.02


async def test_what_came_true_without_an_event_is_seen_at_the_end() -> None:
    came = False

    def comes() -> None:
        nonlocal came
        came = True

    asyncio.get_running_loop().call_later(0.01, comes)
    assert await History().until(lambda: came, 0.02)


async def test_a_limit_of_the_callers_own_is_not_taken_for_the_end_of_the_window() -> None:
    waiting = asyncio.create_task(History().until(lambda: False, 60))
    await asyncio.wait([waiting], timeout=0.01)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()


def test_events_of_a_kind_come_in_order() -> None:
    history = History()
    for event in (Step("one"), Restarted("kubelet"), Step("two")):
        history.observe(event)
    assert list(history.of(Step)) == [Step("one"), Step("two")]


def test_an_event_that_another_process_tells_late_stands_where_it_happened() -> None:
    history = History()
    for at, text in ((1.0, "first"), (3.0, "third"), (3.0, "third too"), (2.0, "second")):
        history.add(Record(at, Step(text)))
    assert [step.text for step in history.of(Step)] == ["first", "second", "third", "third too"]
