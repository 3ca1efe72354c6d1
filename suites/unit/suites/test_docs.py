"""The generated pages of the documentation."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from drahealth.suites.report.document import to_json
from drahealth.suites.report.run_report import Run

ROOT = Path(__file__).resolve().parents[3]


def test_the_generated_pages_are_up_to_date() -> None:
    checked = subprocess.run(
        [sys.executable, ROOT / "ci" / "docs" / "generate", "--check"], capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")


def test_results_of_an_interrupted_run_are_not_published(tmp_path: Path) -> None:
    run, path = Run("reference", "the reference, profile kep", interrupted=True), tmp_path / "r.json"
    path.write_text(to_json(run.report(ended=None)))
    before = (ROOT / "docs" / "reference" / "results.json").read_bytes()
    words = [sys.executable, str(ROOT / "ci" / "docs" / "generate"), "--results", str(path)]
    checked = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (checked.returncode, f"{path} has no complete run" in checked.stderr) == (2, True)
    assert (ROOT / "docs" / "reference" / "results.json").read_bytes() == before


def paths_in(row: str) -> Iterator[Path]:
    """The paths that a row of a table names. A file name without a folder is in the folder of the path before it."""
    folder = ROOT
    for name in re.findall(r"`([\w./-]+)`", row):
        if "/" in name:
            path = ROOT / name
            folder = path if path.is_dir() else path.parent
            yield path
        elif Path(name).suffix in (".py", ".toml", ".md"):
            yield folder / name


def test_contributing_names_only_paths_that_exist() -> None:
    rows = [row for row in (ROOT / "CONTRIBUTING.md").read_text().splitlines() if row.startswith("| ")]
    named = [path for row in rows for path in paths_in(row)]
    assert len(named) > 50
    assert [str(path.relative_to(ROOT)) for path in named if not path.exists()] == []
