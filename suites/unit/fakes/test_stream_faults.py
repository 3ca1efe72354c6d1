"""Messages that come late, twice, not at all or out of turn."""

import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drahealth.fakes.kubelet_plugin.health_streams import KINDS, Pipe, StreamFaults


def taken(pipe: Pipe[Any], now: float) -> list[Any]:
    return [found.message for found in pipe.take(now)]


def piped(messages: int, seed: int = 0, **values: float) -> list[int]:
    """The messages received, sent a second apart, after the faults have ended."""
    faults = StreamFaults(seed)
    for kind, value in values.items():
        faults.set(kind, value)
    pipe, out = Pipe[int](faults), []
    for number in range(messages):
        pipe.put(number, now=number)
        out += taken(pipe, number)
    for kind in values:
        faults.clear(kind)
    return out + taken(pipe, math.inf)


def test_messages_without_faults_leave_at_once() -> None:
    pipe = Pipe[str](StreamFaults())
    pipe.put("a", now=1)
    assert (taken(pipe, 1), pipe.due) == (["a"], math.inf)


def test_delayed_message_leaves_when_due_and_overtakes_none() -> None:
    faults = StreamFaults(values={"delay": 5.0})
    pipe = Pipe[str](faults)
    pipe.put("a", now=1)
    faults.clear("delay")
    pipe.put("b", now=2)
    assert (taken(pipe, 5), pipe.due, taken(pipe, 6)) == ([], 6, ["a", "b"])


def test_stall_holds_all_messages_until_it_is_cleared() -> None:
    faults = StreamFaults(values={"stall": 1.0})
    pipe = Pipe[str](faults)
    pipe.put("a", now=1)
    pipe.put("b", now=2)
    assert (taken(pipe, 99), pipe.due) == ([], math.inf)
    faults.clear("stall")
    assert taken(pipe, 99) == ["a", "b"]


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_drop_loses_the_given_share_of_messages(share: float) -> None:
    assert len(piped(1000, drop=share)) == pytest.approx(1000 * (1 - share), abs=50)


def test_duplicate_sends_the_given_share_of_messages_twice() -> None:
    counts = Counter(piped(1000, duplicate=0.3))
    assert Counter(counts.values())[2] == pytest.approx(300, abs=50)


def test_messages_change_places_with_the_one_after_them() -> None:
    assert piped(4, reorder=1.0) == [1, 0, 3, 2]


@given(st.integers(), st.floats(0, 1), st.floats(0, 1), st.integers(0, 30))
def test_reordering_loses_nothing_and_moves_nothing_far(seed: int, share: float, twice: float, messages: int) -> None:
    out = piped(messages, seed, reorder=share, duplicate=twice)
    assert set(out) == set(range(messages))
    assert all(abs(place - number) <= 1 for place, number in enumerate(dict.fromkeys(out)))


@given(st.integers(), st.dictionaries(st.sampled_from(["drop", "duplicate", "reorder"]), st.floats(0, 1)))
def test_the_same_seed_gives_the_same_faults(seed: int, values: dict[str, float]) -> None:
    assert piped(20, seed, **values) == piped(20, seed, **values)


@pytest.mark.parametrize(("kind", "value"), [("slow", 1), ("drop", 1.5), ("delay", -1), ("delay", math.inf)])
def test_invalid_stream_fault_is_rejected(kind: str, value: float) -> None:
    with pytest.raises(ValueError, match=r"valid: stall, delay|must be"):
        StreamFaults().set(kind, value)
    assert set(KINDS) == {"stall", "delay", "drop", "duplicate", "reorder"}
