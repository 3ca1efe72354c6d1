"""State that a killed manager leaves; `ci/e2e/kill` is the full test."""

import subprocess
import sys
from pathlib import Path

KILL = Path(__file__).parents[3] / "ci" / "e2e" / "kill"


def test_killed_manager_leaves_valid_state_and_no_extra_files() -> None:
    done = subprocess.run([sys.executable, KILL, "--rounds", "3"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout[:11]) == (0, "3 kills in "), done.stdout + done.stderr
