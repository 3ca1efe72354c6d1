"""Commands for real nodes, as a user has them: each in a process of its own."""

import subprocess
import sys

PATIENCE = 300.0
"""Seconds that a command may take on a loaded machine."""


def drahealth(*arguments: str, code: int = 0, text: str | None = None) -> str:
    """The output of a command, which must have this exit code."""
    command = [sys.executable, "-m", "drahealth.suites", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, input=text, timeout=PATIENCE, check=False)
    assert done.returncode == code, (arguments, done.stdout, done.stderr)
    return done.stdout + done.stderr
