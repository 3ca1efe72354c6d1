"""Forked processes of tests behave as started ones do."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from drahealth.suites.unit import command_process
from drahealth.suites.unit.command_process import IMPORTED

SHOW = "import os, sys\nprint(*sys.argv[1:], os.getcwd(), os.environ['X'])\nsys.stderr.write('wrong')\nsys.exit(3)"


def test_a_process_has_its_own_arguments_folder_environment_output_and_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("X", "told")
    done = command_process.run(SHOW, "a", "b c", folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (3, f"a b c {tmp_path} told\n", "wrong")


async def test_async_run_returns_the_same_exit_code_and_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("X", "told")
    done = await command_process.run_async(SHOW)
    assert (done.returncode, done.stdout) == (3, f"{Path.cwd()} told\n")


def test_a_process_does_not_see_the_changes_of_another() -> None:
    changes = "import os, drahealth\nos.environ['Y'] = drahealth.changed = 'yes'"
    sees = "import os, drahealth\nprint(os.environ.get('Y'), getattr(drahealth, 'changed', None))"
    command_process.run(changes)
    assert command_process.run(sees).stdout == "None None\n"
    assert "Y" not in os.environ


def test_an_uncaught_exception_is_printed_and_exits_with_1() -> None:
    done = command_process.run("raise LookupError('word')")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "LookupError: word")


def test_the_modules_of_the_fork_server_exist() -> None:
    assert [name for name in IMPORTED if find_spec(name) is None] == []


def test_colours_do_not_depend_on_the_test_that_starts_the_fork_server() -> None:
    """typer reads the variables of colours when it is imported, and the first test of a worker decides."""
    shows = "from typer import rich_utils\nprint(rich_utils.FORCE_TERMINAL)"
    program = f"from drahealth.suites.unit.command_process import run\nprint(run({shows!r}).stdout)"
    environment = {**os.environ, "PY_COLORS": "0"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["None"]
