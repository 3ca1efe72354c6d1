"""Subcommands whose usage errors are one sentence with a hint, like all other errors of the command."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Annotated, Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup
from typer.main import get_command

from drahealth.fakes.hints import near, with_hint
from drahealth.fakes.program.error_wording import plain
from drahealth.fakes.program.errors import CommandError
from drahealth.fakes.program.log_lines import LogFormat

LogFormatOption = Annotated[
    LogFormat,
    typer.Option(
        metavar="FORMAT",
        help="Log lines on standard error: text (default) or json. json implies --json.",
        show_default=False,
    ),
]
"""`--log-format` of programs that run in containers."""

_UsageError: Any = typer.BadParameter.__base__
"""The error class for wrong arguments and options; typer does not export it."""
_HELP = "NoArgsIsHelpError"
"""The subclass that is not an error: its message is the requested help."""
_INVALID = "BadParameter"
"""The subclass for an option or argument with an invalid value."""
_ANY_NUMBER = -1
"""The number of values of an argument that takes one or more."""
_EXTRA = re.compile(r"Got unexpected extra arguments?(?:\(s\))? \((.+)\)")


class CommandGroup(TyperGroup):
    """A command with subcommands."""

    def new_name(self, old_name: str) -> str:
        """What replaces a subcommand with this old name; empty if it never had such a subcommand."""
        return ""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The subcommand with this name. Raises CommandError if it is unknown."""
        found = super().get_command(ctx, cmd_name)
        if found is None and (new := self.new_name(cmd_name)):
            raise CommandError(f"{ctx.command_path} {cmd_name} was renamed to {new}")
        if found is None and not cmd_name.startswith("-"):
            raise CommandError(f"unknown command {cmd_name!r} of {ctx.command_path}; {near(cmd_name, self.commands)}")
        if found is not None and not isinstance(found, DeferredCommand):
            _hide_types(found, ctx)
        return found

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Prints the help."""
        _hide_types(self, ctx)
        super().format_help(ctx, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses its own arguments. Raises CommandError."""
        with as_command_error():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Parses the subcommand's arguments and runs it. Raises CommandError."""
        with as_command_error():
            return super().invoke(ctx)


class SingleCommand(TyperCommand):
    """A command without subcommands, as a program of its own."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Prints the help."""
        _hide_types(self, ctx)
        super().format_help(ctx, formatter)


def _hide_types(command: Any, ctx: Any) -> None:
    """Hides the Python types that typer prints in help for flags and arguments, such as `<bool>`."""
    for parameter in command.get_params(ctx):
        if isinstance(parameter, TyperArgument) or parameter.is_flag:
            parameter.display_type_rich = _no_type


def _no_type(ctx: Any) -> None:
    """The type of a parameter in help: none."""


class LazyGroup(CommandGroup):
    """A command that builds each subcommand when it is used: its modules may take long to import."""

    def names(self) -> Iterable[str]:
        """The names of its subcommands that are built when they are used, in their order."""
        raise NotImplementedError

    def build(self, name: str) -> TyperCommand | TyperGroup | None:
        """The subcommand with this name; None if it is unknown."""
        raise NotImplementedError

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all subcommands, in their order."""
        for name in self.names():
            self._add(name)
        return super().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The subcommand with this name. Raises CommandError if it is unknown."""
        self._add(cmd_name)
        if cmd_name not in self.commands:
            self.list_commands(ctx)  # for the hint in the error
        return super().get_command(ctx, cmd_name)

    def _add(self, name: str) -> None:
        if name not in self.commands and (built := self.build(name)):
            self.commands[name] = built


class DeferredCommand(TyperCommand):
    """A command that is built when it is used. Lists of commands need only its name and its help text."""

    def __init__(self, name: str, help_text: str, build: Callable[[], typer.Typer]) -> None:
        """`build` returns a Typer with this command alone."""
        super().__init__(name, help=help_text)
        self._build = build

    @cached_property
    def complete(self) -> TyperCommand:
        """The command itself."""
        made = get_command(self._build())
        assert isinstance(made, TyperCommand)
        _hide_types(made, typer.Context(made))
        return made

    def get_params(self, ctx: Any) -> Any:
        return self.complete.get_params(ctx)

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        return self.complete.make_context(*args, **kwargs)


@contextmanager
def as_command_error() -> Iterator[None]:
    """Wrong arguments and options in the block raise CommandError, with the --help to see."""
    try:
        yield
    except _UsageError as error:
        if type(error).__name__ == _HELP:
            raise
        command = error.ctx.command_path if error.ctx else "drahealth"
        raise CommandError(with_hint(_sentence(error), f"see {command} --help")) from None


def _sentence(error: Any) -> str:
    if hasattr(error, "possibilities"):
        close = " or ".join(error.possibilities or ())
        return f"unknown option {error.option_name}{f'; did you mean {close}?' if close else ''}"
    parameter = getattr(error, "param", None)
    if parameter and type(error).__name__ == _INVALID:
        return f"{_name(error)} {plain(error.message.removesuffix('.'))}"
    if parameter and parameter.nargs == _ANY_NUMBER and (last := _last_argument(error.ctx)) is not parameter:
        return f"missing argument {last.metavar} after {parameter.metavar}"
    text = " ".join(error.format_message().split()).removesuffix(".")
    if extra := _EXTRA.fullmatch(text):
        return f"unexpected argument {extra[1]}"
    return f"{text[:1].lower()}{text[1:]}"


def _name(error: Any) -> str:
    """The option or argument of the error, without quotes."""
    return str(error.param.get_error_hint()).replace("'", "")


def _last_argument(context: Any) -> Any:
    return [one for one in context.command.get_params(context) if isinstance(one, TyperArgument)][-1]
