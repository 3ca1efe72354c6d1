"""The order and the distribution of scenarios over several processes."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from drahealth.suites.commands.running import MOST, worker_count
from drahealth.suites.run import scenario
from drahealth.suites.run.scenario import distribute_evenly, scenarios, seconds, sort_longest_first
from drahealth.suites.targets.kubelet.definition import DEFINITION as KUBELET
from drahealth.suites.targets.reference.definition import DEFINITION as REFERENCE
from drahealth.suites.targets.registry import TargetDefinition


def items(*names: str) -> list[Any]:
    """Tests: scenarios, and one other test."""
    known = {scenario.name: scenario for scenario in scenarios()}
    return [SimpleNamespace(name=name, function=SimpleNamespace(scenario=known.get(name))) for name in names]


@pytest.fixture
def usual(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Three scenarios. The first one takes 1 s on a real kubelet, the second one 2 s and disrupts its node, the third
    one 9 s.
    """
    disruptive, *_ = [scenario.name for scenario in scenarios() if scenario.is_exclusive]
    first, last, *_ = [scenario.name for scenario in scenarios() if not scenario.is_exclusive]
    monkeypatch.setattr(scenario, "seconds", lambda: {"kubelet": {first: 1, disruptive: 2, last: 9}})
    return [first, disruptive, last]


@pytest.mark.parametrize(
    ("target", "order"),
    [
        (REFERENCE, (0, 1, 2, 3)),
        (KUBELET, (1, 2, 0, 3)),  # the first one disrupts its node
        (replace(KUBELET, overlaps=False), (2, 1, 0, 3)),
    ],
)
def test_the_longest_scenarios_of_a_target_come_first(
    usual: list[str], target: TargetDefinition, order: tuple[int, ...]
) -> None:
    found = items(*usual, "test_other")
    sort_longest_first(found, target)
    names = [*usual, "test_other"]
    assert [item.name for item in found] == [names[number] for number in order]


def test_the_usual_times_are_those_of_existing_scenarios() -> None:
    assert seconds()["kubelet"].keys() <= {scenario.name for scenario in scenarios()}


@pytest.mark.parametrize(("asked", "given"), [(None, 1), (5, 5)])
def test_a_process_gets_one_scenario_at_a_time_unless_the_user_chose_a_number(asked: int | None, given: int) -> None:
    config: Any = SimpleNamespace(option=SimpleNamespace(maxschedchunk=asked))
    distribute_evenly(config)
    assert config.option.maxschedchunk == given


@pytest.mark.parametrize(("whole", "processors", "count"), [(True, 2, 2), (True, 64, MOST), (False, 2, 1)])
def test_a_whole_run_on_the_reference_has_a_process_for_each_processor(
    monkeypatch: pytest.MonkeyPatch, whole: bool, processors: int, count: int
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(processors)))
    assert worker_count(None, REFERENCE, whole=whole) == count


def test_the_number_of_processes_that_the_user_wants_is_used() -> None:
    assert [worker_count(7, definition, whole=True) for definition in (REFERENCE, KUBELET)] == [7, 7]
