"""The scenarios that run for a change."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from mutation.coverage_map import CoverageMap, read_map

LINES = {"m.py": {"1": ["slow", "fast"], "2": ["fast"], "3": ["*"]}}
SECONDS = {"slow": 2.0, "fast": 1.0, "other": 3.0}
MAP = CoverageMap(LINES, SECONDS, SECONDS, 1.5)
WRITTEN = json.dumps(asdict(MAP))


@pytest.mark.parametrize(
    ("path", "line", "at_import", "expected"),
    [
        ("m.py", 1, False, ["fast", "slow"]),
        ("m.py", 2, False, ["fast"]),
        ("m.py", 3, False, ["fast", "slow"]),
        ("m.py", 4, False, []),
        ("m.py", 4, True, ["fast", "slow"]),
        ("without_functions.py", 1, True, ["fast", "slow", "other"]),
        ("without_functions.py", 1, False, []),
    ],
)
def test_the_scenarios_of_a_line_run_the_fastest_first(
    path: str, line: int, *, at_import: bool, expected: list[str]
) -> None:
    assert MAP.scenarios(path, [line], at_import=at_import) == expected


def test_a_written_map_is_read(tmp_path: Path) -> None:
    file = tmp_path / "coverage.json"
    file.write_text(WRITTEN)
    assert read_map(file) == MAP


@pytest.mark.parametrize(
    "text",
    [json.dumps({"lines": LINES, "seconds": SECONDS}), WRITTEN[:-9], "[]", ""],
    ids=["of older code", "interrupted", "no object", "empty"],
)
def test_an_incomplete_or_older_map_is_rejected(tmp_path: Path, text: str) -> None:
    (tmp_path / "coverage.json").write_text(text)
    with pytest.raises(ValueError, match=r"coverage\.json"):
        read_map(tmp_path / "coverage.json")
