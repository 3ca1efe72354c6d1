"""The names of scenarios in results: the same from the command, `--pyargs` and a checkout, and in all releases."""

import os
from pathlib import Path, PurePath

import pytest

from drahealth.suites.run.catalogue import scenarios_folder

KEP = "drahealth.kep"
"""The class name of our scenarios. It has no module, because a scenario may move to another one."""

TIMELINES = "drahealth.timelines"
"""The beginning of the class names of timelines; the path of the file follows."""

TIMELINE_SUFFIX = ".timeline.yaml"

STANDARD_INPUT = f"stdin{TIMELINE_SUFFIX}"
"""The name of the file with the timelines from standard input."""


def case_of(item: pytest.Item) -> tuple[str, str] | None:
    """The class name and the name of a scenario of ours, or of a timeline; None for others, which pytest names."""
    if not isinstance(item, pytest.Function):
        return f"{TIMELINES}.{_dotted(item.path)}", item.name
    return (KEP, item.name) if item.path.parent.samefile(scenarios_folder()) else None


def id_of(item: pytest.Item) -> str:
    """What identifies a scenario in a run: no two tests have the same."""
    if not isinstance(item, pytest.Function):
        path = STANDARD_INPUT if item.path.name == STANDARD_INPUT else os.path.relpath(item.path)
        return f"{path}::{item.name}"
    case = case_of(item)
    return "::".join(case) if case else item.nodeid


def _dotted(path: Path) -> str:
    """The path of a timeline as seen from the current directory, with dots. One that is outside of it has its name."""
    parts = PurePath(os.path.relpath(path)).parts
    parts = parts[-1:] if parts[0] == os.pardir else parts
    return ".".join(parts).removesuffix(TIMELINE_SUFFIX)
