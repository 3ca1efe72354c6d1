"""Log lines as JSON, and errors that end a program."""

import json
import logging
import subprocess
import sys

import pytest

from drahealth.fakes.program.log import JsonLogLines
from drahealth.suites.unit.command_process import COMMAND, FAKES, run


def record(message: str, *arguments: object, error: BaseException | None = None) -> logging.LogRecord:
    caught = (type(error), error, None) if error else None
    return logging.LogRecord("drahealth.x", logging.WARNING, "x.py", 1, message, arguments, caught)


def test_a_log_line_is_one_line_of_json() -> None:
    text = JsonLogLines().format(record("lost %s", "two\nlines\x1b", error=ValueError("bad")))
    line = json.loads(text)
    assert ("\n" in text, "\x1b" in text) == (False, False)
    assert (line["level"], line["logger"], line["message"]) == ("WARNING", "drahealth.x", "lost two\nlines\x1b")
    assert line["exception"] == "ValueError: bad"


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (COMMAND, ("manager", "--root-dir", "/")),
        (FAKES, ("driver", "serve", "-f", "/none.yaml")),
        (COMMAND, ("driver", "serve", "-f", "/none.yaml")),
    ],
)
def test_the_error_that_ends_a_program_is_json(program: str, words: tuple[str, ...]) -> None:
    done = run(program, *words, "--log-format", "json")
    (line,) = map(json.loads, done.stderr.splitlines())
    assert (done.returncode, done.stdout, line["level"]) == (2, "", "ERROR")


def test_unknown_log_format_is_rejected() -> None:
    done = run(COMMAND, "manager", "--root-dir", "/", "--log-format", "xml")
    assert (done.returncode, "--log-format must be one of" in done.stderr) == (2, True)


def test_warnings_of_libraries_are_json() -> None:
    code = "import warnings\nfrom drahealth.fakes.program.log import log_as_json\nlog_as_json()\n"
    code += "warnings.warn('old', stacklevel=1)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "old" in json.loads(done.stderr)["message"]
