"""The options of the pytest suite as a run: the command of the driver, and flags of `drahealth check`."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.main import get_group

from drahealth.fakes.program.usage import as_command_error
from drahealth.suites.commands import check_run
from drahealth.suites.commands.check import app
from drahealth.suites.driver_checks.driver_run import DriverRun
from drahealth.suites.driver_checks.verdicts import Waiver
from drahealth.suites.errors import ConfigurationError

_INSTEAD = {
    "plan": "run `drahealth check --plan`",
    "report": "run `drahealth check --report`",
    "html": "run `drahealth check --html`",
    "junitxml": "pass --junitxml to pytest",
    "requirement": "pass -k ID to pytest",
    "evidence": "pass --drahealth-check-evidence to pytest",
}
"""What takes the place of flags that the suite does not accept."""


@dataclass(frozen=True, slots=True)
class Run:
    """What the tests judge."""

    asked: DriverRun
    waivers: tuple[Waiver, ...]


def run_of(command: str, flags: str = "", evidence: str = "") -> Run:
    """The run of these options. Raises ConfigurationError or CommandError."""
    given = _parsed([*_words("--drahealth-check-options", flags), "--", *_words("--drahealth-check", command)])
    for name, instead in _INSTEAD.items():
        if given[name]:
            raise ConfigurationError(f"--drahealth-check-options does not take --{name}", instead)
    if not given["command"] and not given["registry_dir"]:
        raise ConfigurationError(
            "no driver to check", "pass --drahealth-check 'COMMAND', or the registration socket of a running driver"
        )
    waivers = check_run.Outputs(waiver_file=given["waivers"]).waivers
    return Run(check_run.run_of({**given, "evidence": Path(evidence) if evidence else None}), waivers)


def _words(option: str, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ConfigurationError(f"{option}: {error}", "write it as in a shell") from None


def _parsed(arguments: list[str]) -> Mapping[str, Any]:
    """The parameters of `drahealth check` by name."""
    with as_command_error():
        context = get_group(app).commands["check"].make_context("drahealth check", arguments)
    return context.params
