"""The options of the pytest suite as settings of a run: the command of the driver, and flags of `drahealth check`."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.main import get_group

from drahealth.fakes.program.usage import as_command_error
from drahealth.suites.commands.check import app
from drahealth.suites.commands.check_run import Outputs, settings_of
from drahealth.suites.driver_checks.settings import Settings
from drahealth.suites.driver_checks.summary import Waiver
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
_RENAMED = {"cdi_dir": "cdi_dirs"}
"""The parameters of `settings_of` for flags that have another name."""


@dataclass(frozen=True, slots=True)
class Run:
    """What the tests judge."""

    settings: Settings
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
    waivers = Outputs(waiver_file=given["waivers"]).waivers
    left_out = {*_INSTEAD, "command", "waivers"}
    kept = {_RENAMED.get(name, name): value for name, value in given.items() if name not in left_out}
    return Run(settings_of(given["command"], **kept, evidence=Path(evidence) if evidence else None), waivers)


def _words(option: str, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ConfigurationError(f"{option}: {error}", "write it as in a shell") from None


def _parsed(arguments: list[str]) -> Mapping[str, Any]:
    """The parameters of `drahealth check` by name."""
    with as_command_error():
        context = get_group(app).commands["check"].make_context("drahealth check", arguments)
    several = ("command", "cdi_dir", "env")
    return {name: value or () if name in several else value for name, value in context.params.items()}
