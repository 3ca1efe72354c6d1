"""The generated pages of the documentation."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_the_generated_pages_are_up_to_date() -> None:
    checked = subprocess.run(
        [sys.executable, ROOT / "ci" / "generate-docs", "--check"], capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")
