"""The name of the command as the user has called it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from drahealth.fakes.program.usage import VARIABLE, as_called, command_as_called, command_name, take_variable

ROOT = Path(__file__).parents[3]


def script(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o700)
    return path


@pytest.mark.parametrize(
    ("program", "arguments", "name"),
    [
        ("ci/drahealth", ["/p/python", "/w/.venv/bin/drahealth", "run"], "ci/drahealth"),
        ("my dir/drahealth", ["/p/python", "my dir/drahealth"], "'my dir/drahealth'"),
        ("{tmp}/bin/drahealth", ["/p/python", "{tmp}/bin/drahealth"], "drahealth"),
        ("/l/drahealth/__main__.py", ["/p/python", "-m", "drahealth", "run"], "/p/python -m drahealth"),
        ("/l/pytest", ["/p/python", "/l/pytest"], "drahealth"),
        ("/l/pytest/__main__.py", ["/p/python", "-m", "pytest", "a.py"], "drahealth"),
        ("/gone/drahealth", ["/p/python", "/gone/drahealth"], "drahealth"),
    ],
)
def test_command_has_the_name_that_the_user_has_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, arguments: list[str], name: str
) -> None:
    monkeypatch.setenv("PATH", str(script(tmp_path / "bin/drahealth").parent))
    monkeypatch.chdir(tmp_path)
    for place in ("ci", "my dir"):
        script(tmp_path / place / "drahealth")
    monkeypatch.setattr(sys, "argv", [program.format(tmp=tmp_path)])
    monkeypatch.setattr(sys, "orig_argv", arguments)
    assert command_name() == name
    assert command_as_called("drahealth run -k a") == f"{name} run -k a"
    assert as_called("`drahealth up` or `drahealth`; drahealth-x, `drahealthy`") == (
        f"`{name} up` or `{name}`; drahealth-x, `drahealthy`"
    )


def test_other_commands_stay_as_they_are() -> None:
    assert command_as_called("pytest a.py --drahealth-target kind") == "pytest a.py --drahealth-target kind"


def in_a_clone(clone: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Runs a copy of ci/drahealth, with the installed command of this Python."""
    ours = clone / "ci/drahealth"
    ours.parent.mkdir()
    ours.write_text((ROOT / "ci/drahealth").read_text())
    script(clone / "ci/set-up")
    script(clone / ".venv/bin/drahealth").write_text(f'#!/bin/sh\nexec {sys.executable} -m drahealth "$@"\n')
    return subprocess.run(["sh", "ci/drahealth", *words], cwd=clone, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["explain", "B-1"], "Run `ci/drahealth explain B-01`"),
        (["run", "--nope"], "see ci/drahealth run --help"),
        (["ctl", "--socket", "/none", "status"], "use `ci/drahealth up` or"),
    ],
)
def test_clone_prints_commands_that_run_in_the_clone(tmp_path: Path, words: list[str], hint: str) -> None:
    done = in_a_clone(tmp_path, *words)
    assert (done.returncode != 0, hint in done.stderr) == (True, True), done.stderr


def test_report_file_of_a_clone_names_drahealth(tmp_path: Path) -> None:
    story = tmp_path / "a.timeline.yaml"
    story.write_text(
        "format: fault-timeline/v1\nname: a\ntimeline: [{expect: {message: never}, within: 10ms}]\n", encoding="utf-8"
    )
    done = in_a_clone(tmp_path, "play", story.name, "--report", "r.json")
    rerun = "drahealth play a.timeline.yaml --target reference"
    assert (done.returncode, f"rerun: ci/{rerun}" in done.stdout) == (1, True), done.stdout
    assert json.loads((tmp_path / "r.json").read_text())["scenarios"][0]["rerun"] == rerun


def test_child_processes_do_not_get_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "ci/drahealth")
    monkeypatch.setattr(sys, "argv", ["/l/drahealth/__main__.py"])
    take_variable()
    assert (sys.argv, VARIABLE in os.environ) == (["ci/drahealth"], False)
