"""Progress output during long steps."""

import queue

from drahealth.suites.run.progress import ElapsedTime
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
