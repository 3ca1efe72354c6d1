"""Generated scripts depend only on their seed, are valid, and avoid the ends of timeouts."""

from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from differential import generation
from differential.generation import RESTARTS, generate, scripts
from differential.script import (
    EndList,
    ListDevices,
    Report,
    Script,
    StartPlugin,
    StopPlugin,
    find_error,
)

ORDINARY = RESTARTS - 1
"""Scripts before the first one that restarts the kubelet."""


@cache
def sixty() -> list[Script]:
    """The first scripts of seed 3."""
    return generate(3, 60)


def test_the_same_seed_gives_the_same_scripts_for_any_number() -> None:
    before = sixty()
    generation._batch.cache_clear()
    assert generate(3, ORDINARY) == before[:ORDINARY]


def test_another_seed_gives_other_scripts() -> None:
    second = generate(4, ORDINARY)
    assert sum(script in second for script in sixty()) < 5


def test_all_scripts_differ() -> None:
    assert len({script.steps for script in sixty()}) == 60


def test_one_script_in_fifteen_restarts_the_kubelet() -> None:
    assert [script.restarts for script in sixty()[:30]] == ([0] * 14 + [1]) * 2


def test_device_plugins_take_part_with_every_kind_of_step() -> None:
    steps = [step for script in sixty() for step in script.steps]
    assert {type(step) for step in steps} >= {ListDevices, EndList, StartPlugin, StopPlugin}


def test_names_are_replaced_in_a_full_list() -> None:
    reports = [step for script in sixty() for step in script.steps if isinstance(step, Report)]
    full = [[r.device for r in report.says if r.pool == "full"] for report in reports if devices(report) > 16000]
    assert ["kept"] in full
    assert any({"kept", "new"} <= set(names) for names in full)


def devices(report: Report) -> int:
    return sum(reading.count for reading in report.says)


@given(st.booleans().flatmap(scripts))
@settings(max_examples=100, deadline=None)
def test_every_script_is_valid_and_its_timeouts_end_within_their_step_or_after_it(script: Script) -> None:
    assert find_error(script) == ""
    reports = [step for step in script.steps if isinstance(step, Report)]
    ends = [(said.timeout, report.pause) for report in reports for said in report.says if said.timeout > 0]
    assert all(timeout + 0.9 < pause or timeout >= 60 for timeout, pause in ends)
