"""The commands of the fakes: the only part of `drahealth` in a pod's image.

`python -m drahealth.fakes driver serve -f FILE` and `python -m drahealth.fakes ctl ...` equal those of `drahealth`.
"""

from collections.abc import Mapping

import typer

from drahealth.fakes.program.errors import CommandError
from drahealth.fakes.program.usage import ListedGroup, Subcommand


def _driver() -> typer.Typer:
    from drahealth.fakes.serve.command import app

    return app


def _ctl() -> typer.Typer:
    from drahealth.fakes.ctl.command import app

    return app


SUBCOMMANDS: Mapping[str, Subcommand] = {
    "driver": Subcommand("Run fake drivers and device plugins in a separate process.", _driver),
    "ctl": Subcommand("Control running fake drivers and device plugins.", _ctl),
}


class FakesGroup(ListedGroup):
    """`drahealth` with the subcommands of the fakes."""

    subcommands = SUBCOMMANDS


app = typer.Typer(
    name="drahealth",
    cls=FakesGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def common() -> None:
    """Fake hardware."""


def exit_with(error: CommandError) -> None:
    """Prints the error and exits with its code."""
    from drahealth.fakes.program.log import write_error
    from drahealth.fakes.program.usage import as_called

    write_error(as_called(str(error)))
    raise SystemExit(error.code)


def main() -> None:
    """The entry point; prints a CommandError as one sentence and exits with its code."""
    try:
        app(prog_name="drahealth")
    except CommandError as error:
        exit_with(error)
