"""The order of scenarios that `--seed` draws."""

from drahealth.suites.run.scenario import drawn_order

NAMES = [f"test_{number}" for number in range(30)]


def drawn(names: list[str], seed: int) -> list[str]:
    return drawn_order(names, str, seed)


def test_a_seed_draws_the_same_order_each_time_and_another_seed_another_one() -> None:
    assert drawn(NAMES, 1) == drawn(NAMES[::-1], 1)
    assert len({tuple(NAMES), tuple(drawn(NAMES, 1)), tuple(drawn(NAMES, 2))}) == 3


def test_a_selection_keeps_the_order_of_the_whole_run() -> None:
    assert drawn(NAMES[::3], 1) == [name for name in drawn(NAMES, 1) if name in NAMES[::3]]
