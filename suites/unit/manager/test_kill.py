"""What a manager that is killed leaves: `ci/kill` has the whole of it."""

import subprocess
import sys
from pathlib import Path

KILL = Path(__file__).parents[3] / "ci" / "kill"


def test_a_manager_that_is_killed_leaves_what_was_true_and_nothing_beside_it() -> None:
    done = subprocess.run([sys.executable, KILL, "--rounds", "3"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout[:11]) == (0, "3 kills in "), done.stdout + done.stderr
