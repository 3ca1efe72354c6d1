"""Shell completion: the scripts for shells, the words that they offer, and the values of options and arguments.

typer does the work: its script starts `drahealth` with an environment variable that asks for the next words. typer's
option `--install-completion` edits files of the user's shell, so `completion` prints the script, as kubectl does.
"""

import os
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

import typer
from typer.completion import get_completion_inspect_parameters, shell_complete
from typer.main import get_command

from drahealth.fakes.program.errors import CommandError
from drahealth.suites.errors import HarnessError

app = typer.Typer()

_PROGRAM = "drahealth"
_ASKS = "_DRAHEALTH_COMPLETE"
"""The script of a shell sets this environment variable. typer derives its name from that of the program."""


class Shell(StrEnum):
    """The shells that have a script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@app.command("completion")
def completion(
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")], context: typer.Context
) -> None:
    """Print a script for shell completion of commands, options and their values.

    In bash: source <(drahealth completion bash)
    """
    _register_shells()
    shell_complete(context.find_root().command, {}, _PROGRAM, _ASKS, f"source_{shell}")


def is_asked() -> bool:
    """Whether the script of a shell started this process, and wants the next words."""
    return _ASKS in os.environ


def answer(program: typer.Typer) -> None:
    """Print the words that can come next. A line with an error has none; the shell shows no error before Enter."""
    _register_shells()
    try:
        shell_complete(get_command(program), {}, _PROGRAM, _ASKS, os.environ[_ASKS])
    except (CommandError, HarnessError):
        return


def _register_shells() -> None:
    """typer knows its shells only after a call of this function, which has no other use here."""
    get_completion_inspect_parameters()


def explained_ids() -> Iterable[str]:
    """The IDs that `drahealth explain` knows."""
    from drahealth.suites.commands.explaining import every_id

    return every_id()


def profiles() -> Iterable[str]:
    """The profiles of the reference."""
    from drahealth.manager.releases import PROFILES

    return PROFILES


def catalogues() -> Iterable[str]:
    """The catalogues of faults."""
    from drahealth.fakes.faults.catalogue import CATALOGUES

    return CATALOGUES


def faults() -> Iterable[str]:
    """The faults of all catalogues."""
    from drahealth.fakes.faults.catalogue import every_fault

    return every_fault()


def policies() -> Iterable[str]:
    """The policies that map faults to health."""
    from drahealth.fakes.faults import catalogue

    return catalogue.policies()
