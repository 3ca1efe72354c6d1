"""Commands whose mistakes of usage are told in one sentence with a hint, as all else that a program complains of."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from drahealth.fakes.hints import near
from drahealth.fakes.program.errors import CommandError

_UsageError: Any = typer.BadParameter.__base__
"""What is wrong with arguments and options; typer gives it no name of its own."""
_HELP = "NoArgsIsHelpError"
"""The one that is no mistake: its message is the help that was asked for."""


class Verbs(TyperGroup):
    """A command's subcommands."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The subcommand of that name. Raises CommandError for one that there is not."""
        found = super().get_command(ctx, cmd_name)
        if found is None and not cmd_name.startswith("-"):
            raise CommandError(f"{ctx.command_path} has no command {cmd_name!r}; {near(cmd_name, self.commands)}")
        return found

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Its own arguments. Raises CommandError."""
        with _told():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Reads the subcommand's arguments, and runs it. Raises CommandError."""
        with _told():
            return super().invoke(ctx)


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except _UsageError as error:
        if type(error).__name__ == _HELP:
            raise
        command = error.ctx.command_path if error.ctx else "drahealth"
        raise CommandError(f"{_sentence(error)}; {command} --help says what it takes") from None


def _sentence(error: Any) -> str:
    if hasattr(error, "possibilities"):
        close = " or ".join(error.possibilities or ())
        return f"there is no option {error.option_name}{f', did you mean {close}?' if close else ''}"
    text = " ".join(error.format_message().split()).removesuffix(".")
    return f"{text[:1].lower()}{text[1:]}"
