"""CI: ci/step defines the steps. .ci/run and the workflows call all of them, and nothing else."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PREPARATION = {"sudo", "curl"}
"""Commands of the workflows that prepare the machine."""
ON_KIND = {"ci/drahealth", "ci/kind-demo"}
"""Commands of the workflows that need a kind cluster. .ci/run does not create one."""


def steps() -> list[str]:
    listed = subprocess.run([ROOT / "ci" / "step"], capture_output=True, text=True, check=True).stdout
    return [line.split()[0] for line in listed.splitlines()]


def workflow(path: Path) -> Any:
    return YAML(typ="safe", pure=True).load(path)


def commands(path: Path) -> Iterator[list[str]]:
    """The words of the command of each step that has one."""
    for job in workflow(path)["jobs"].values():
        yield from (step["run"].split() for step in job["steps"] if "run" in step)


def test_a_clean_clone_runs_each_step_once() -> None:
    called = re.findall(r"^ *step ([a-z-]+)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert sorted(called) == sorted(steps())


def test_the_workflow_of_a_push_runs_each_step() -> None:
    called = {words[1] for words in commands(ROOT / ".github/workflows/ci.yml") if words[0] == "ci/step"}
    assert called == set(steps())


def test_the_workflows_run_only_steps() -> None:
    used = {words[0] for path in WORKFLOWS for words in commands(path)}
    assert used - PREPARATION - ON_KIND == {"ci/step", "ci/repeat"}


def test_the_weekly_workflow_repeats_the_scenarios_and_generates_scripts() -> None:
    (weekly,) = (path for path in WORKFLOWS if "schedule" in workflow(path)["on"])
    assert [words[0] for words in commands(weekly)].count("ci/repeat")
    assert ["ci/step", "differential"] in [words[:2] for words in commands(weekly)]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_job_has_a_limit_of_minutes(path: Path) -> None:
    assert [name for name, job in workflow(path)["jobs"].items() if "timeout-minutes" not in job] == []


def test_an_unknown_step_is_refused_with_the_names_of_all() -> None:
    done = subprocess.run([ROOT / "ci" / "step", "test"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.split(": ")[-1].split()) == (2, steps())
