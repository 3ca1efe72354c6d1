"""The step for GitHub Actions: its script runs `drahealth certify`, and shows the summary."""

import itertools
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[3]
ACTION = ROOT / "ci" / "deploy" / "action" / "action.yml"


@pytest.fixture
def action() -> Any:
    return YAML(typ="safe").load(ACTION.read_text())


def test_step_certifies_and_shows_the_summary(action: Any, tmp_path: Path) -> None:
    command = json.dumps([sys.executable, "-c", "import time; time.sleep(600)"])
    (tmp_path / "gpu.toml").write_text(f'format = "driver-profile/v1"\n[driver]\ncommand = {command}\n')
    (tmp_path / "drahealth").symlink_to(Path(sys.executable).parents[1])
    given = {
        "PROFILE": "gpu.toml",
        "LEVEL": "core",
        "OUT": "my certificate",
        "ARGUMENTS": "--deadline=2 --api-server none",
    }
    runner = {"RUNNER_TEMP": str(tmp_path), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
    script = next(step["run"] for step in action["runs"]["steps"] if step["name"] == "Certify")
    done = subprocess.run(["bash", "-e", "-c", script], env={**os.environ, **given, **runner}, cwd=tmp_path)
    assert (done.returncode, "not certified core" in (tmp_path / "summary").read_text()) == (4, True)


def test_step_installs_the_checkout_of_the_action(action: Any, tmp_path: Path) -> None:
    programs, log = tmp_path / "programs", tmp_path / "log"
    programs.mkdir()
    pip = f'#!/bin/sh\necho "$@" > {log}\n'
    python = f'#!/bin/sh\nmkdir -p "$3/bin"\ncat > "$3/bin/pip" <<EOF\n{pip.replace("$", chr(92) + "$")}EOF\n'
    (programs / "python3").write_text(f'{python}chmod +x "$3/bin/pip"\n')
    (programs / "python3").chmod(0o755)
    paths = {"PATH": f"{programs}:{os.environ['PATH']}", "GITHUB_ACTION_PATH": str(ACTION.parent)}
    script = next(step["run"] for step in action["runs"]["steps"] if step["name"] == "Install drahealth")
    environment = {**os.environ, **paths, "RUNNER_TEMP": f"{tmp_path}/with space"}
    subprocess.run(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script], env=environment, check=True)
    installed = Path(log.read_text().split()[-1]).resolve()
    assert (installed, (installed / "pyproject.toml").exists()) == (ROOT, True)


def test_steps_are_complete_and_use_known_inputs(action: Any) -> None:
    steps = action["runs"]["steps"]
    assert [step["name"] for step in steps if ("shell" in step) != ("run" in step)] == []
    used = set(re.findall(r"inputs\.([\w-]+)", ACTION.read_text()))
    assert used == action["inputs"].keys()


def test_workflow_of_the_docs_gives_known_inputs(action: Any) -> None:
    lines = (ROOT / "docs" / "drivers.md").read_text().splitlines()
    start = lines.index("    jobs:")
    block = itertools.takewhile(lambda line: not line.strip() or line.startswith("    "), lines[start:])
    workflow = YAML(typ="safe").load(textwrap.dedent("\n".join(block)))
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    (given,) = (step["with"] for step in steps if "ci/deploy/action" in step.get("uses", ""))
    required = {name for name, one in action["inputs"].items() if one.get("required")}
    assert required <= given.keys() <= action["inputs"].keys()


def test_every_input_is_used(action: Any) -> None:
    text = ACTION.read_text()
    assert [name for name in action["inputs"] if f"inputs.{name} " not in text] == []
