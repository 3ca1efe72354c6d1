"""The commands of the fakes: the only part of `drahealth` in a pod's image.

`python -m drahealth.fakes driver serve -f FILE` and `python -m drahealth.fakes ctl ...` equal those of `drahealth`.
"""

import sys

import typer

from drahealth.fakes.ctl.command import app as ctl
from drahealth.fakes.program.errors import CommandError
from drahealth.fakes.program.usage import CommandGroup
from drahealth.fakes.serve.command import app as driver
from drahealth.proto.quoting import printable_lines

app = typer.Typer(
    name="drahealth",
    cls=CommandGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Fake hardware.",
)
app.add_typer(driver, name="driver")
app.add_typer(ctl, name="ctl")


def exit_with(error: CommandError) -> None:
    """Prints the error and exits with its code."""
    print(printable_lines(f"drahealth: {error}"), file=sys.stderr)  # noqa: T201
    raise SystemExit(error.code)


def main() -> None:
    """The entry point; prints a CommandError as one sentence and exits with its code."""
    try:
        app(prog_name="drahealth")
    except CommandError as error:
        exit_with(error)
