"""[[fault]] of a driver profile: each kind of adapter, and the mistakes with their lines."""

from dataclasses import replace
from pathlib import Path

import pytest

from drahealth.fakes.program.user_files import FileError
from drahealth.proto.values import Health
from drahealth.suites.commands.certify_init import plan_lines
from drahealth.suites.driver_checks.driver_run import DriverRun, plan
from drahealth.suites.driver_checks.experiments import EXPERIMENTS, NO_BACKEND
from drahealth.suites.driver_checks.profile.faults import (
    FAULTS_LIMIT,
    Action,
    CallHttp,
    CreateFile,
    Fault,
    PatchObject,
    RemoveFile,
    RunCommand,
    SetEnvironment,
    TaintSection,
    TellBackend,
    WriteFile,
    lasting,
    overlap,
    pairs,
)
from drahealth.suites.driver_checks.profile.file import read_profile
from drahealth.suites.unit.driver_checks.runs import fault, run_with

HEAD = 'format = "driver-profile/v1"\n[driver]\ncommand = ["./driver"]\n'
FAULT = '[[fault]]\nname = "unplugged"\n'


def read(tmp_path: Path, text: str) -> tuple[Fault, ...]:
    (tmp_path / "backend.py").touch()
    path = tmp_path / "gpu.toml"
    path.write_text(HEAD + text)
    return read_profile(path).profile.fault


def mistakes(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(FileError) as caught:
        read(tmp_path, text)
    return [one.where for one in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ('{ create = "/dev/{device}.broken", text = "x" }', CreateFile("/dev/{device}.broken", "x")),
        ('{ remove = "/dev/{device}" }', RemoveFile("/dev/{device}")),
        ('{ write = "{driver_dir}/health", text = "{device} bad" }', WriteFile("{driver_dir}/health", "{device} bad")),
        ('{ run = ["./ctl", "inject", "{device}"] }', RunCommand(("./ctl", "inject", "{device}"))),
        (
            '{ patch = "ResourceClaim/default/a", merge = { metadata = { labels = { broken = "yes" } } } }',
            PatchObject("ResourceClaim", "a", "default", {"metadata": {"labels": {"broken": "yes"}}}),
        ),
        (
            '{ patch = "Gadget/a", api-version = "example.com/v1", merge = { spec = { broken = true } } }',
            PatchObject("Gadget", "a", "", {"spec": {"broken": True}}, "example.com/v1"),
        ),
        (
            """{ patch = "Node/{node_name}", merge = '{"spec": {"taints": null}}' }""",
            PatchObject("Node", "{node_name}", "", {"spec": {"taints": None}}),
        ),
        (
            '{ annotate = "Node/{node_name}", annotations = { a = "{device}" }, remove-annotations = ["b"] }',
            PatchObject("Node", "{node_name}", "", {"metadata": {"annotations": {"a": "{device}", "b": None}}}),
        ),
        (
            '{ http = "http://127.0.0.1:8080/break", method = "PUT", body = "{device}", headers = { x = "y" } }',
            CallHttp("http://127.0.0.1:8080/break", "PUT", "{device}", {"x": "y"}),
        ),
        ('{ environment = { FAIL = "{device}" } }', SetEnvironment({"FAIL": "{device}"})),
    ],
)
def test_each_kind_of_adapter_is_an_action(tmp_path: Path, text: str, action: Action) -> None:
    found = read(tmp_path, f'{FAULT}break = {text}\nheal = "none"\n')
    assert found == (fault("unplugged", action, "none"),)


def test_backend_command_defaults_to_break_and_the_device(tmp_path: Path) -> None:
    script = tmp_path / "backend.py"
    backend = '{ backend = "backend.py", arguments = ["{driver_dir}"] }'
    (found,) = read(tmp_path, f'{FAULT}break = {backend}\nheal = {{ backend = "backend.py", tell = "repair all" }}\n')
    assert (found.break_, found.heal) == (
        TellBackend(script, ("{driver_dir}",), "break {device}"),
        TellBackend(script, (), "repair all"),
    )


def test_all_keys_of_a_fault_are_read(tmp_path: Path) -> None:
    keys = 'device = "gpu-1"\nhealth = "Unknown"\nsettle = "2s"\nlimit = "1s"\ngrade = "asked"\n'
    more = 'on-error = "FAIL"\non-no-effect = "NOT_TESTED"\nchange = { remove = "b" }\nheal = "restart"\n'
    more += 'taint = { key = "example.com/bad", value = "hot", effect = "NoExecute" }\n'
    assert read(tmp_path, f'{FAULT}break = {{ remove = "a" }}\n{keys}{more}') == (
        fault(
            *("unplugged", RemoveFile("a"), "restart"),
            device="gpu-1",
            change=RemoveFile("b"),
            health=Health.UNKNOWN,
            settle=2.0,
            limit=1.0,
            grade="asked",
            on_error="FAIL",
            on_no_effect="NOT_TESTED",
            taint=TaintSection(key="example.com/bad", value="hot", effect="NoExecute"),
        ),
    )


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('break = { remove = "a" }\n', "fault.0.heal"),
        ('break = { remove = "a" }\nheal = "later"\n', "fault.0.heal"),
        ('break = { remove = "a", create = "b" }\nheal = "none"\n', "fault.0.break"),
        ('break = { remove = "a", text = "b" }\nheal = "none"\n', "fault.0.break"),
        ('break = { remov = "a" }\nheal = "none"\n', "fault.0.break.remov"),
        ('break = { remove = "{devise}" }\nheal = "none"\n', "fault.0.break"),
        ('break = { patch = "Toaster/a" }\nheal = "none"\n', "fault.0.break"),
        ('break = { backend = "missing.py" }\nheal = "none"\n', "fault.0.break.backend"),
        ('break = { remove = "a" }\nheal = { run = [] }\n', "fault.0.heal"),
        ('break = { remove = "a" }\nheal = "none"\nhealth = "Healthy"\n', "fault.0.health"),
        ('break = { remove = "a" }\nheal = "none"\nsettle = 5\n', "fault.0.settle"),
        ('break = { remove = "a" }\nheal = "none"\ntaint = { key = "a/b" }\n', "fault.0.taint.effect"),
        (
            'break = { remove = "a" }\nheal = "none"\ntaint = { key = "a b", effect = "None" }\n',
            "fault.0.taint.key",
        ),
    ],
)
def test_a_mistake_in_a_fault_has_its_key(tmp_path: Path, text: str, where: str) -> None:
    assert where in mistakes(tmp_path, FAULT + text)


def test_two_faults_need_two_names(tmp_path: Path) -> None:
    one = f'{FAULT}break = {{ remove = "a" }}\nheal = "none"\n'
    assert mistakes(tmp_path, one + one)


def test_experiment_with_a_backend_is_planned_only_with_one(tmp_path: Path) -> None:
    (tmp_path / "backend.py").touch()
    reasons = []
    for action in ('run = ["true"]', 'backend = "backend.py"'):
        path = tmp_path / "gpu.toml"
        path.write_text(HEAD + f'[[fault]]\nname = "a"\nbreak = {{ {action} }}\nheal = "none"\n')
        excluded = {one.name: reason for one, reason in plan(replace(read_profile(path), level="full"))}
        reasons.append(excluded["backend-restart"])
    assert reasons == [NO_BACKEND, ""]


# The faults of an experiment at a bad moment: their selection, their pairs and their plan.

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


def test_plan_of_a_device_plugin_takes_the_time_of_faults_that_are_caused_once() -> None:
    one = EXPERIMENTS["plugin-fault-plan"]
    assert run(HOT, STAYS, RESTARTS).seconds_of(one) - run(HOT).seconds_of(one) == STAYS.seconds + RESTARTS.seconds


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
