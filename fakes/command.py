"""The commands of the fakes: the only part of `drahealth` in a pod's image.

`python -m drahealth.fakes driver serve -f FILE` and `python -m drahealth.fakes ctl ...` equal those of `drahealth`.
"""

from collections.abc import Callable, Iterable, Mapping

import typer
from typer.core import TyperGroup
from typer.main import get_group

from drahealth.fakes.program.errors import CommandError
from drahealth.fakes.program.log_lines import write_error
from drahealth.fakes.program.usage import LazyGroup


def _driver() -> typer.Typer:
    from drahealth.fakes.serve.command import app

    return app


def _ctl() -> typer.Typer:
    from drahealth.fakes.ctl.command import app

    return app


_SUBCOMMANDS: Mapping[str, Callable[[], typer.Typer]] = {"driver": _driver, "ctl": _ctl}


class FakesGroup(LazyGroup):
    """`drahealth` with the subcommands of the fakes; it imports the one that is used."""

    def names(self) -> Iterable[str]:
        return _SUBCOMMANDS

    def build(self, name: str) -> TyperGroup | None:
        return get_group(_SUBCOMMANDS[name]()) if name in _SUBCOMMANDS else None


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
    write_error(str(error))
    raise SystemExit(error.code)


def main() -> None:
    """The entry point; prints a CommandError as one sentence and exits with its code."""
    try:
        app(prog_name="drahealth")
    except CommandError as error:
        exit_with(error)
