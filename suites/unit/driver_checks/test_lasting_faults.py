"""The faults of an experiment at a bad moment: their selection, their pairs and their plan."""

from dataclasses import replace
from pathlib import Path

import pytest

from drahealth.suites.commands.certify_init import plan_lines
from drahealth.suites.driver_checks.driver_run import DriverRun, plan
from drahealth.suites.driver_checks.experiments import EXPERIMENTS
from drahealth.suites.driver_checks.profile.faults import (
    FAULTS_LIMIT,
    Action,
    Fault,
    PatchObject,
    RemoveFile,
    RunCommand,
    SetEnvironment,
    TellBackend,
    WriteFile,
    lasting,
    overlap,
    pairs,
)
from drahealth.suites.unit.driver_checks.runs import fault, run_with

HOT = fault("hot", WriteFile("/hot", "x"), RemoveFile("/hot"), settle=2.0)
STAYS = fault("stays", HOT.break_, "none", settle=2.0)
RESTARTS = fault("restarts", SetEnvironment({"A": "b"}), "restart", settle=2.0)


def named(number: int, **changes: object) -> Fault:
    return HOT.model_copy(update={"name": f"fault-{number}", **changes})


def run(*faults: Fault) -> DriverRun:
    asked = run_with(level="full")
    return replace(asked, profile=asked.profile.model_copy(update={"fault": faults}))


def test_each_fault_that_lasts_is_caused() -> None:
    assert lasting((STAYS, HOT, RESTARTS, named(1)), 5) == (HOT, named(1))


def test_faults_beyond_the_limit_are_left_out_except_the_first() -> None:
    slow, fast = named(1, settle=FAULTS_LIMIT), named(2, settle=1)
    assert lasting((slow, fast), 0) == (slow,)
    assert lasting((HOT, fast, slow), 0) == (HOT, fast)


def test_experiment_takes_the_time_of_its_faults() -> None:
    one = EXPERIMENTS["fault-without-stream"]
    first, both = run(HOT), run(HOT, named(1))
    assert one.seconds_per_fault is not None
    assert both.seconds_of(one) - first.seconds_of(one) == one.seconds_per_fault + HOT.seconds
    assert run(STAYS, HOT).faults_of(EXPERIMENTS["faults"]) == (STAYS, HOT)
    assert run(HOT).faults_of(EXPERIMENTS["watch"]) == ()


def test_plan_names_the_faults_for_which_there_is_no_time() -> None:
    limited = run(HOT, named(1, settle=FAULTS_LIMIT))
    without = [line for line in plan_lines(limited) if "without fault-1" in line]
    planned = [one for one, excluded in plan(limited) if one.seconds_per_fault is not None and not excluded]
    assert (len(without), "second-fault" in {one.name for one in planned}) == (len(planned), True)
    assert not [line for line in plan_lines(run(HOT, named(1))) if "without fault-1" in line]


def test_adjacent_faults_of_one_device_form_a_pair() -> None:
    one, other = named(1, device="gpu-1"), named(2, device="gpu-2")
    assert pairs((HOT, one, other)) == [(HOT.model_copy(update={"device": "gpu-1"}), one)]
    assert pairs((HOT, named(3), named(4))) == [(HOT, named(3)), (named(3), named(4))]


@pytest.mark.parametrize(
    ("mine", "theirs", "same"),
    [
        (WriteFile("/a", "x"), RemoveFile("/a"), True),
        (WriteFile("/a", "x"), WriteFile("/b", "x"), False),
        (PatchObject("Node", "n", "", {"a": 1}), PatchObject("Node", "n", "", {"b": 1}), True),
        (TellBackend(Path("b.py"), (), "break"), TellBackend(Path("b.py"), (), "warm"), False),
        (RunCommand(("a",)), RunCommand(("a",)), False),
    ],
)
def test_faults_overlap_if_they_write_to_one_place(mine: Action, theirs: Action, same: bool) -> None:
    none = RunCommand(("true",))
    assert overlap(fault("a", mine, none), fault("b", theirs, none)) is same
