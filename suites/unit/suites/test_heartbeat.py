"""A sign of life while something takes long."""

import queue

from drahealth.suites.run.heartbeat import Heartbeat


def test_it_says_again_and_again_what_is_under_way() -> None:
    said: queue.Queue[tuple[str, float]] = queue.Queue()
    beat = Heartbeat(lambda what, seconds: said.put((what, seconds)), every=0.001)
    beat.begins("a long story")
    first, second = said.get(timeout=5), said.get(timeout=5)
    beat.ends()
    assert (first[0], second[0], first[1] < second[1]) == ("a long story", "a long story", True)


def test_what_begins_takes_the_place_of_what_was_under_way() -> None:
    said: queue.Queue[str] = queue.Queue()
    beat = Heartbeat(lambda what, _: said.put(what), every=0.001)
    beat.begins("one")
    beat.begins("two")
    while said.get(timeout=5) != "two":
        pass
    beat.ends()
    beat.ends()
    assert "one" not in {said.get(timeout=5) for _ in range(said.qsize())}
