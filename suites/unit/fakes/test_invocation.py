"""The name of the command as the user has called it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from drahealth.fakes.program.invocation import as_called, command_as_called, command_name

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


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["explain", "B-1"], "Run `ci/drahealth explain B-01`"),
        (["run", "--nope"], "see ci/drahealth run --help"),
        (["ctl", "--socket", "/none", "status"], "use `ci/drahealth up` or"),
    ],
)
def test_clone_prints_commands_that_run_in_the_clone(tmp_path: Path, words: list[str], hint: str) -> None:
    """In a copy of the script, with the installed command of this Python."""
    ours = tmp_path / "ci/drahealth"
    ours.parent.mkdir()
    ours.write_text((ROOT / "ci/drahealth").read_text())
    script(tmp_path / "ci/set-up")
    installed = script(tmp_path / ".venv/bin/drahealth")
    installed.write_text(f'#!/bin/sh\nexec {sys.executable} -m drahealth "$@"\n')
    environment = {name: value for name, value in os.environ.items() if name != "DRAHEALTH_CALLED_AS"}
    done = subprocess.run(
        ["sh", "ci/drahealth", *words], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode != 0, hint in done.stderr) == (True, True), done.stderr
