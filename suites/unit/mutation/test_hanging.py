"""When a trial hangs, by its processor time and by real time."""

import pytest

from drahealth.suites.mutation.hanging import Patience


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        ([(1, 5), (1, 90), (1, 96)], [False, False, True]),
        ([(1, 5), (20, 80), (21, 160), (22, 240)], [False, False, False, False]),
        ([(60, 60), (119, 119), (121, 121)], [False, False, True]),
        ([(5, 10), (5.5, 60), (6.2, 101)], [False, False, True]),
    ],
    ids=["waits", "is slow", "computes", "barely computes"],
)
def test_a_trial_hangs_if_it_only_waits_or_computes_for_long(
    looks: list[tuple[float, float]], expected: list[bool]
) -> None:
    patience = Patience()
    assert [patience.ends(computed, now) for computed, now in looks] == expected
