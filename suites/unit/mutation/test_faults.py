"""The fault model: what it draws, and that each of its faults makes the reference wrong."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from mutation import wrong_reference
from mutation.coverage_map import CoverageMap
from mutation.faults import SEAMS, Fault, every_fault, sample
from mutation.running import Results, Trial, run_all

SCENARIO = "test_an_unhealthy_device_shows_in_the_pod_status_with_its_message"
LOST = Fault("report of a driver", "it is lost", "any device", "always", "Healthy to Unhealthy")


def test_the_same_seed_draws_the_same_faults_and_another_one_draws_others() -> None:
    assert sample(50, 1) == sample(50, 1) != sample(50, 2)


def test_a_sample_has_every_kind_of_fault_before_any_kind_twice() -> None:
    kinds = {(fault.seam, fault.what) for fault in every_fault()}
    drawn = Counter((fault.seam, fault.what) for fault in sample(len(kinds) + 10, 3))
    assert (set(drawn), max(drawn.values())) == (kinds, 2)


def test_a_fault_is_found_by_its_key() -> None:
    assert Fault.of(LOST.key) == LOST
    with pytest.raises(KeyError):
        Fault.of("no such fault")


def test_a_fault_without_an_effect_is_not_tried_but_found_by_its_key() -> None:
    again = Fault("read claims", "it has only its last Pod", "any claim", "always", "any change")
    assert (again in set(every_fault()), Fault.of(again.key)) == (False, again)


def test_each_place_of_the_model_has_its_wrong_methods() -> None:
    assert set(SEAMS) == {*wrong_reference.INPUTS, *wrong_reference.PLACES}


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        pytest.param(LOST, "killed", marks=pytest.mark.long),
        (Fault("report of a driver", "it is lost", "the second driver", "always", "any change"), "survived"),
    ],
    ids=["its device", "a device that the scenario does not have"],
)
def test_a_scenario_fails_for_a_fault_of_its_device(tmp_path: Path, fault: Fault, outcome: str) -> None:
    covered = CoverageMap({}, {SCENARIO: 0.1}, {SCENARIO: 0.1}, imports=30.0)
    found: list[Trial] = []
    asyncio.run(run_all([fault], covered, Results(tmp_path / "results.jsonl"), 1, lambda _, trial: found.append(trial)))
    assert [trial.outcome for trial in found] == [outcome]
