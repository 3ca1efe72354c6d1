"""The part of the `drahealth` command that fakes need: in a pod's image there is nothing else of it.

`python -m drahealth.fakes driver serve -f FILE` and `python -m drahealth.fakes ctl ...` are the same as of `drahealth`.
"""

import sys

import typer

from drahealth.fakes.ctl.command import app as ctl
from drahealth.fakes.program.errors import CommandError
from drahealth.fakes.program.usage import Verbs
from drahealth.fakes.serve.command import app as driver
from drahealth.proto.quoting import printable_lines

app = typer.Typer(
    name="drahealth",
    cls=Verbs,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Fake hardware.",
)
app.add_typer(driver, name="driver")
app.add_typer(ctl, name="ctl")


def complain(complaint: CommandError) -> None:
    """Says it, and ends the program."""
    print(printable_lines(f"drahealth: {complaint}"), file=sys.stderr)  # noqa: T201
    raise SystemExit(complaint.code)


def main() -> None:
    """The entry point: errors of ours are one sentence and an exit code."""
    try:
        app(prog_name="drahealth")
    except CommandError as complaint:
        complain(complaint)
