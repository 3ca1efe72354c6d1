"""The scenarios that run for a change."""

import pytest

from drahealth.suites.mutation.coverage_map import CoverageMap

LINES = {"m.py": {"1": ["slow", "fast"], "2": ["fast"], "3": ["*"]}}
MAP = CoverageMap(LINES, {"slow": 2.0, "fast": 1.0, "other": 3.0})


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
