"""A new target is a folder and one line of the registry: here `dummy/`, and the line that each test adds."""

import json
import re
import runpy
from pathlib import Path

import pytest

from drahealth.suites.errors import ConfigurationError
from drahealth.suites.run.options import Options
from drahealth.suites.targets import registry
from drahealth.suites.unit.command_process import Done, run, run_pytest

FOLDER = "drahealth.suites.unit.targets.dummy"
PAGE = Path(__file__).parents[3] / "ci" / "docs" / "targets_page.py"
COMMAND = f"""
from drahealth.suites.targets.registry import FOLDERS
FOLDERS["dummy"] = {FOLDER!r}
from drahealth.suites.command import main
main()
"""


@pytest.fixture(autouse=True)
def line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line of the registry, in this process."""
    monkeypatch.setitem(registry.FOLDERS, "dummy", FOLDER)


def drahealth(*arguments: str) -> Done:
    """The command in a process of its own, with the line in its registry."""
    return run(COMMAND, *arguments)


@pytest.mark.parametrize("command", ["run", "play", "doctor"])
def test_a_new_target_adds_its_options_to_the_commands(command: str) -> None:
    assert re.search(r"--colour +COLOUR +Colour of the dummy", drahealth(command, "--help").stdout)


def test_a_new_target_adds_its_options_to_pytest(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("")
    pytester.path.joinpath("line.py").write_text(
        f"from drahealth.suites.targets.registry import FOLDERS\nFOLDERS['dummy'] = {FOLDER!r}\n"
    )
    pytester.syspathinsert()
    shown = run_pytest(pytester, "-p", "line", "--help")
    shown.stdout.fnmatch_lines(["*--drahealth-colour=COLOUR*", "*dummy: Colour of the dummy*"])


def test_a_new_target_is_a_choice_of_target() -> None:
    with pytest.raises(ConfigurationError, match="reference, kubelet, kind, cluster, dummy"):
        Options.make({"target": "moon"})
    assert Options.make({"target": "dummy", "colour": "blue"}).target == "dummy"


@pytest.mark.parametrize(
    "given",
    [
        {"target": "dummy", "colour": "grey"},
        {"target": "dummy", "profile": "kep"},
        {"target": "kubelet", "colour": "red"},
    ],
)
def test_the_options_of_a_new_target_are_checked(given: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=r"^--(colour|profile) "):
        Options.make(given)


def test_scenarios_are_not_applicable_if_a_new_target_lacks_capabilities(tmp_path: Path) -> None:
    report = tmp_path / "r.json"
    drahealth("run", "--target", "dummy", "-k", "recovered or restarts_while_the_api", "--report", str(report))
    outcomes = {s["outcome"]: s["reason"] for s in json.loads(report.read_text())["scenarios"]}
    reason = "AWAY-02 needs stop-api-server: its API server cannot be stopped"
    assert outcomes == {"passed": "", "not applicable": reason}


def test_doctor_examines_a_new_target() -> None:
    done = drahealth("doctor", "--target", "dummy", "--colour", "blue")
    assert (done.returncode, done.stdout.splitlines()[:2]) == (0, ["a dummy", "ok   paint: blue"])


def test_the_documentation_lists_a_new_target() -> None:
    page = runpy.run_path(str(PAGE))["targets_page"]("")
    rows = [line for line in page.splitlines() if "dummy" in line]
    assert rows[0] == "| `dummy` | A target that exists for tests. |"
    assert "- `dummy` lacks `stop-api-server`: its API server cannot be stopped." in rows
    assert "| `--colour COLOUR` | Colour of the dummy: red (default) or blue. | dummy |" in rows
