"""When a timeline can skip time."""

import pytest

from drahealth.proto.events import Event, Record, Restarted, Step, TimePassed
from drahealth.suites.run.timelines import QUIET, Beginning

BEGUN = Beginning(left=7200.0, records=1, timers=frozenset({1, 2}))


def history(*events: Event) -> list[Record]:
    return [Record(0.0, event) for event in (Step("before"), *events)]


def test_time_with_periodic_timers_and_without_changes_is_quiet() -> None:
    assert BEGUN.was_quiet(history(TimePassed(2.0)), timers=frozenset({3, 4}))


@pytest.mark.parametrize("event", [Restarted("kubelet"), Step("a step")])
def test_a_change_ends_the_quiet_time(event: Event) -> None:
    assert not BEGUN.was_quiet(history(TimePassed(2.0), event), timers=frozenset({3}))


def test_time_is_not_quiet_while_a_timer_from_before_is_set() -> None:
    assert not BEGUN.was_quiet(history(), timers=frozenset({2, 3}))


def test_a_period_is_over_after_its_length() -> None:
    assert [BEGUN.is_over(BEGUN.left - seconds) for seconds in (QUIET - 1, QUIET)] == [False, True]
