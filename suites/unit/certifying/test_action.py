"""The step for GitHub Actions: its script runs `drahealth certify`, and shows the summary."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[3]
ACTION = ROOT / "ci" / "action" / "action.yml"


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


def test_every_input_is_used(action: Any) -> None:
    text = ACTION.read_text()
    assert [name for name in action["inputs"] if f"inputs.{name} " not in text] == []
