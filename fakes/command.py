"""The commands of the fakes: the only part of `drahealth` in a pod's image.

`python -m drahealth.fakes driver serve -f FILE` and `python -m drahealth.fakes ctl ...` equal those of `drahealth`.
"""

import os
from collections.abc import Mapping
from typing import ClassVar

import typer

from drahealth.fakes.program.errors import CommandError
from drahealth.fakes.program.usage import LazyGroup


class FakesGroup(LazyGroup):
    """`drahealth` with the subcommands of the fakes."""

    subcommands: ClassVar[Mapping[str, tuple[str, str]]] = {
        "driver": ("drahealth.fakes.serve.command", "Run fake drivers and device plugins in a separate process."),
        "ctl": ("drahealth.fakes.ctl.command", "Control running fake drivers and device plugins."),
    }


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


def exit_with(text: str, code: int) -> None:
    """Prints the error and exits. A shell that asks for completions gets none, and no error before Enter."""
    from drahealth.fakes.program.log import write_error
    from drahealth.fakes.program.usage import as_called

    if "_DRAHEALTH_COMPLETE" in os.environ:
        raise SystemExit
    write_error(as_called(text))
    raise SystemExit(code)


def main() -> None:
    """The entry point; prints a CommandError as one sentence and exits with its code."""
    try:
        app(prog_name="drahealth")
    except CommandError as error:
        exit_with(str(error), error.code)
