"""Runs that end early: their JSON report and JUnit XML, in separate pytest runs."""

import json
import signal
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from drahealth.proto.health_apis import HEALTH_APIS
from drahealth.suites.run.scenario import drawn_order, scenarios_folder
from drahealth.suites.unit import command_process

FILES = ("--drahealth-report=r.json", "--junitxml=j.xml")

STORIES = """
import os, signal
from drahealth.suites.errors import HarnessError
from drahealth.suites.run.fixtures import node
from drahealth.suites.run.scenario import scenario

@scenario("STATUS-01")
async def test_a_first_one(node):
    pass

@scenario("STATUS-01")
async def test_second(node):
    {event}

@scenario("STATUS-01")
async def test_third(node):
    pass
"""

Case = tuple[str | None, str | None, list[str]]


def play(folder: Path, event: str, *arguments: str) -> int:
    """Runs three scenarios, of which the second one has this event. Returns the exit code."""
    (folder / "test_stories.py").write_text(STORIES.replace("{event}", event))
    return command_process.run(command_process.PYTEST, *FILES, *arguments, folder=folder).returncode


def report(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "r.json").read_text())
    return found


def cases(folder: Path) -> list[Case]:
    """Class name, name and outcomes of each test case."""
    found = ElementTree.parse(folder / "j.xml").iter("testcase")
    return [(c.get("classname"), c.get("name"), [e.tag for e in c if e.tag != "properties"]) for c in found]


def test_a_seed_draws_the_order_of_scenarios_and_is_in_the_report(tmp_path: Path) -> None:
    play(tmp_path, "pass", "--drahealth-seed=2")
    names = [one["name"] for one in report(tmp_path)["scenarios"]]
    assert names == drawn_order(["test_a_first_one", "test_second", "test_third"], str, 2) != sorted(names)
    assert report(tmp_path)["conditions"]["seed"] == 2


def test_a_seed_that_is_no_number_is_rejected(tmp_path: Path) -> None:
    assert play(tmp_path, "pass", "--drahealth-seed=x") == pytest.ExitCode.USAGE_ERROR


NAMES = ("complete", "interrupted", "planned", "run", "exit_code")


def test_a_run_to_the_end_is_complete(tmp_path: Path) -> None:
    assert play(tmp_path, "pass") == 0
    found = report(tmp_path)
    assert [found[name] for name in (*NAMES, "reasons")] == [True, False, 3, 3, 0, []]
    assert cases(tmp_path) == [("test_stories", f"test_{n}", []) for n in ("a_first_one", "second", "third")]


@pytest.mark.parametrize("arguments", [(), ("-n1",)], ids=["", "distributed"])
def test_an_interrupted_run_has_an_error_for_its_last_scenario_and_for_itself(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    code = play(tmp_path, "raise KeyboardInterrupt", *arguments)
    found = report(tmp_path)
    assert [found[name] for name in NAMES] == [False, True, 3, 1, code]
    assert code == pytest.ExitCode.INTERRUPTED
    assert cases(tmp_path) == [
        ("test_stories", "test_a_first_one", []),
        ("test_stories", "test_second", ["error"]),
        ("drahealth.run", "complete run", ["error"]),
    ]


def test_a_killed_run_leaves_files_that_are_not_complete(tmp_path: Path) -> None:
    assert play(tmp_path, "pass") == 0
    assert play(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)") == -signal.SIGKILL
    found = report(tmp_path)
    assert [found[name] for name in (*NAMES, "ended")] == [False, True, 3, 1, 3, None]
    assert cases(tmp_path) == [("drahealth.run", "complete run", ["error"])]


def test_a_run_that_stops_at_the_first_failure_has_an_error_for_the_others(tmp_path: Path) -> None:
    assert play(tmp_path, "raise AssertionError", "-x") == 1
    found = report(tmp_path)
    assert [found[name] for name in NAMES] == [False, False, 3, 2, 1]
    assert found["reasons"][-1] == (
        "The run is not complete: stopping after 1 failures; 2 of 3 planned scenarios have a result."
    )
    assert cases(tmp_path)[-1] == ("drahealth.run", "complete run", ["error"])


def test_a_worker_that_ends_leaves_a_scenario_without_a_result(tmp_path: Path) -> None:
    assert play(tmp_path, "os._exit(1)", "-n1") == 1
    found = report(tmp_path)
    assert [found[name] for name in NAMES] == [False, False, 3, 2, 1]
    assert cases(tmp_path)[-1] == ("drahealth.run", "complete run", ["error"])


def test_a_selection_is_not_complete_and_no_error(tmp_path: Path) -> None:
    assert play(tmp_path, "pass", "-k", "second") == 0
    found = report(tmp_path)
    assert [found[name] for name in (*NAMES, "reasons")] == [
        *(False, False, 1, 1, 0),
        ["The run is not complete: 1 of 3 scenarios were selected."],
    ]
    assert cases(tmp_path) == [("test_stories", "test_second", [])]


def test_collecting_the_scenarios_is_no_error_and_no_complete_run(tmp_path: Path) -> None:
    assert play(tmp_path, "pass", "--collect-only") == 0
    assert (report(tmp_path)["complete"], cases(tmp_path)) == (False, [])


@pytest.mark.parametrize("option", ["--drahealth-report=/dev/full", "--junitxml=/dev/full"])
def test_a_file_that_cannot_be_written_at_the_end_exits_with_3(tmp_path: Path, option: str) -> None:
    (tmp_path / "test_stories.py").write_text(STORIES.replace("{event}", "pass"))
    done = command_process.run(command_process.PYTEST, option, "--drahealth-target=reference", folder=tmp_path)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        3,
        "Exit: drahealth: cannot write /dev/full: No space left on device",
    )


def test_test_cases_have_the_same_names_from_each_way_to_start_a_run(tmp_path: Path) -> None:
    chosen, found = ("-k", "recovered"), list[list[Case]]()
    (tmp_path / "own.ini").write_text("[pytest]\naddopts = --import-mode=importlib -p no:cacheprovider\n")
    kep = str(Path(scenarios_folder(), "test_basic.py"))
    for program, words in (
        (command_process.COMMAND, ("run", *chosen, "--junitxml=j.xml")),
        (command_process.PYTEST, ("--pyargs", "drahealth.suites.kep", *chosen, "--junitxml=j.xml")),
        (
            command_process.PYTEST,
            (kep, "-c", "own.ini", f"--rootdir={Path(kep).parents[2]}", *chosen, "--junitxml=j.xml"),
        ),
    ):
        done = command_process.run(program, *words, folder=tmp_path)
        assert done.returncode == 0, done.stdout
        found.append(cases(tmp_path))
    name = "test_a_recovered_device_shows_healthy_again"
    apis = ["", *(f"[{api}]" for api in list(HEALTH_APIS)[1:])]
    assert found == 3 * [[("drahealth.kep", f"{name}{api}", []) for api in apis]]
