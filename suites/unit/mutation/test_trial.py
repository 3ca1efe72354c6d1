"""A trial: a changed module in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

from drahealth.suites.mutation.modules import ROOT
from drahealth.suites.mutation.operators import Mutation, mutations

SCENARIO = "test_an_unhealthy_device_shows_in_the_pod_status_with_its_message"


def change(path: str, function: str, before: str) -> Mutation:
    found = mutations(path, (ROOT / path).read_text())
    return next(one for one in found if (one.function, one.before) == (function, before))


def trial(one: Mutation, folder: Path) -> int:
    text, report = folder / "module.py", folder / "report.json"
    text.write_text(one.changed((ROOT / one.path).read_text()))
    words = ("-m", "drahealth.suites.mutation.trial", one.path, str(text), str(report), SCENARIO)
    return subprocess.run([sys.executable, *words], capture_output=True, check=False).returncode


@pytest.mark.parametrize(
    ("path", "function", "before", "code"),
    [
        ("manager/dra.py", "DraManager._reported", "self._notify(update.changed)", 1),
        ("manager/dra.py", "DraManager._reported", "self._save(driver, update)", 0),
    ],
)
def test_a_scenario_fails_for_a_change_that_it_sees(
    tmp_path: Path, path: str, function: str, before: str, code: int
) -> None:
    assert trial(change(path, function, before), tmp_path) == code
