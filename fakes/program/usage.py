"""Subcommands whose usage errors are one sentence with a hint, like all other errors of the command."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import typer
from typer.core import TyperArgument, TyperGroup

from drahealth.fakes.hints import near
from drahealth.fakes.program.errors import CommandError

_UsageError: Any = typer.BadParameter.__base__
"""The error class for wrong arguments and options; typer does not export it."""
_HELP = "NoArgsIsHelpError"
"""The subclass that is not an error: its message is the requested help."""


class CommandGroup(TyperGroup):
    """A command with subcommands."""

    renamed: ClassVar[Mapping[str, str]] = {}
    """The new names of its subcommands, by the old names."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The subcommand with this name. Raises CommandError if it is unknown."""
        found = super().get_command(ctx, cmd_name)
        if found is None and cmd_name in self.renamed:
            raise CommandError(f"{ctx.command_path} {cmd_name} was renamed to {self.renamed[cmd_name]}")
        if found is None and not cmd_name.startswith("-"):
            raise CommandError(f"unknown command {cmd_name!r} of {ctx.command_path}; {near(cmd_name, self.commands)}")
        if found is not None:
            _hide_types(found, ctx)
        return found

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Prints the help."""
        _hide_types(self, ctx)
        super().format_help(ctx, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses its own arguments. Raises CommandError."""
        with _as_command_error():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Parses the subcommand's arguments and runs it. Raises CommandError."""
        with _as_command_error():
            return super().invoke(ctx)


def _hide_types(command: Any, ctx: Any) -> None:
    """Hides the Python types that typer prints in help for flags and arguments, such as `<bool>`."""
    for parameter in command.get_params(ctx):
        if isinstance(parameter, TyperArgument) or parameter.is_flag:
            parameter.display_type_rich = _no_type


def _no_type(ctx: Any) -> None:
    """The type of a parameter in help: none."""


@contextmanager
def _as_command_error() -> Iterator[None]:
    try:
        yield
    except _UsageError as error:
        if type(error).__name__ == _HELP:
            raise
        command = error.ctx.command_path if error.ctx else "drahealth"
        raise CommandError(f"{_sentence(error)}; see {command} --help") from None


def _sentence(error: Any) -> str:
    if hasattr(error, "possibilities"):
        close = " or ".join(error.possibilities or ())
        return f"unknown option {error.option_name}{f'; did you mean {close}?' if close else ''}"
    text = " ".join(error.format_message().split()).removesuffix(".")
    return f"{text[:1].lower()}{text[1:]}"
