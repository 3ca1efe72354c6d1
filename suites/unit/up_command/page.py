"""The examples of docs/nodes.md: a Pod, and a program that reads the health of its devices with the official client."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

from drahealth.suites.unit.command_process import PATIENCE

PAGE = Path(__file__).resolve().parents[3] / "docs" / "nodes.md"


def python_of(page: Path) -> str:
    """The only Python program of a page."""
    (program,) = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    return str(program)


def manifest_of(page: Path, name: str) -> str:
    """The first file of this name on a page."""
    found = re.search(rf"^`{re.escape(name)}`:\n\n((?:    .*\n|\n)+)", page.read_text(), re.MULTILINE)
    assert found
    return textwrap.dedent(found[1])


def printed_by(program: str, kubeconfig: Path) -> list[str]:
    """The lines that a program prints, in a process of its own with this KUBECONFIG."""
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
