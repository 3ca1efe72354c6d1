"""Progress output during long steps."""

import itertools
import queue

from drahealth.suites.run.timelines import story_time
from drahealth.suites.targets.progress import ElapsedTime
from drahealth.suites.unit.endings import PATIENCE


def test_the_current_activity_is_reported_repeatedly() -> None:
    said: queue.Queue[tuple[str, float]] = queue.Queue()
    elapsed = ElapsedTime(lambda what, seconds: said.put((what, seconds)), every=0.001)
    elapsed.begin("a long story")
    first, second = said.get(timeout=PATIENCE), said.get(timeout=PATIENCE)
    elapsed.end()
    assert (first[0], second[0], first[1] < second[1]) == ("a long story", "a long story", True)


def test_a_new_activity_replaces_the_previous_one() -> None:
    said: queue.Queue[str] = queue.Queue()
    elapsed = ElapsedTime(lambda what, _: said.put(what), every=0.001)
    elapsed.begin("one")
    elapsed.begin("two")
    while said.get(timeout=PATIENCE) != "two":
        pass
    elapsed.end()
    elapsed.end()
    assert "one" not in {said.get(timeout=PATIENCE) for _ in range(said.qsize())}


def test_the_text_of_an_activity_can_change() -> None:
    said: queue.Queue[str] = queue.Queue()
    texts = itertools.count()
    elapsed = ElapsedTime(lambda what, _: said.put(what), every=0.001)
    elapsed.begin(lambda: f"step {next(texts)}")
    first = [said.get(timeout=PATIENCE) for _ in range(2)]
    elapsed.end()
    assert first == ["step 0", "step 1"]


def test_a_long_timeline_shows_how_far_it_is() -> None:
    assert story_time(7200.4, 300 * 86400.0) == ", at 2:00:00 of 300 days, 0:00:00"
    assert story_time(90_000, 86_400) == ", at 1 day, 0:00:00 of 1 day, 0:00:00"
