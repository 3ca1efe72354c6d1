"""When a trial hangs, by its processor time and by real time."""

import pytest

from drahealth.suites.story.node import RECEIPT_LIMIT
from mutation.running import LIMITS, Limits, Patience


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        ([(1, 5), (1, 44), (1, 46)], [False, False, True]),
        ([(1, 5), (20, 40), (22, 80), (24, 120)], [False, False, False, False]),
        ([(5, 10), (5.5, 30), (6.2, 56)], [False, False, True]),
    ],
    ids=["waits", "is slow", "barely computes"],
)
def test_a_trial_hangs_if_it_only_waits(looks: list[tuple[float, float]], expected: list[bool]) -> None:
    patience = Patience(waiting=45.0)
    assert [patience.ends(computed, now) for computed, now in looks] == expected


def test_the_limit_of_a_scenario_follows_from_its_processor_time() -> None:
    limits = Limits(times=3.0, more=5.0)
    assert [limits.computing(needed) for needed in (0.0, 0.1, 20.0)] == [5.0, 5.3, 65.0]


def test_a_scenario_that_waits_in_vain_fails_before_its_trial_counts_as_hanging() -> None:
    assert LIMITS.waiting >= 1.5 * RECEIPT_LIMIT
