"""Subcommands whose usage errors are one sentence with a hint, and the name of the command as called."""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup
from typer.main import get_group

from drahealth.fakes.hints import near, with_hint
from drahealth.fakes.program.errors import CommandError, plain

# The name of this command as the user has called it, for commands that the user can copy and run.
#
# Files that other people read have the name `drahealth`.

VARIABLE = "DRAHEALTH_CALLED_AS"
"""The path of a script that runs this command, such as ci/drahealth."""

_NAME = "drahealth"
_QUOTED = re.compile(rf"`{_NAME}(?=[ `])")
_MODULE = "__main__.py"


def take_variable() -> None:
    """Uses the path of the calling script as the name of this process. Its child processes do not see the variable."""
    if called := os.environ.pop(VARIABLE, ""):
        sys.argv[0] = called


def command_name() -> str:
    """What starts this command in the shell of the user: drahealth, ci/drahealth, or python -m drahealth."""
    path = Path(sys.argv[0])
    if path.name == _MODULE and "-m" in sys.orig_argv:
        module = _module(sys.orig_argv)
        ours = module[-1].partition(".")[0] == _NAME
        return shlex.join([*sys.orig_argv[:1], *module]) if ours else _NAME
    if path.name != _NAME:
        return _NAME  # another program, such as pytest
    found = shutil.which(_NAME)
    try:
        return _NAME if found and path.samefile(found) else shlex.quote(sys.argv[0])
    except OSError:
        return _NAME


def as_called(text: str) -> str:
    """The text with the name as called in each command in backticks."""
    return _QUOTED.sub(lambda _: f"`{command_name()}", text)


def command_as_called(command: str) -> str:
    """A command that begins with `drahealth`, with the name as called. Other commands stay as they are."""
    first, space, rest = command.partition(" ")
    return f"{command_name()}{space}{rest}" if first == _NAME else command


def _module(arguments: list[str]) -> list[str]:
    """The options of Python that name the module, such as `-m drahealth`."""
    place = arguments.index("-m")
    return arguments[place : place + 2]


# Subcommands whose usage errors are one sentence with a hint, like all other errors of the command.

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

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The subcommand with this name. Raises CommandError if it is unknown."""
        found = super().get_command(ctx, cmd_name)
        if found is None and not cmd_name.startswith("-"):
            raise CommandError(f"unknown command {cmd_name!r} of {ctx.command_path}; {near(cmd_name, self.commands)}")
        if found is not None and not isinstance(found, DeferredCommand):
            _adjust_parameters(found, ctx)
        return found

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses its own arguments. Raises CommandError."""
        _adjust_parameters(self, ctx)
        with as_command_error():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Parses the subcommand's arguments and runs it. Raises CommandError."""
        with as_command_error():
            return super().invoke(ctx)


class SingleCommand(TyperCommand):
    """A command without subcommands, as a program of its own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses its arguments."""
        _adjust_parameters(self, ctx)
        return super().parse_args(ctx, args)


def _adjust_parameters(command: Any, ctx: Any) -> None:
    """Hides the Python types that typer prints in help for flags and arguments, such as `<bool>`.

    It also gives `--help` a default. Without one, typer imports pydantic to convert None, which is slow.
    """
    for parameter in command.get_params(ctx):
        if isinstance(parameter, TyperArgument) or parameter.is_flag:
            parameter.display_type_rich = _no_type
        if parameter.name == "help" and parameter.default is None:
            parameter.default = False


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
    """A command, or a command with subcommands, that is built when it is used. A list of commands does not build it."""

    def __init__(self, name: str, help_text: str, app: Callable[[], typer.Typer]) -> None:
        """`app` returns the Typer that has the command, or that is the command if both have the same name."""
        super().__init__(name, help=help_text)
        self._app = app

    @cached_property
    def complete(self) -> TyperCommand | TyperGroup:
        """The command itself."""
        group = get_group(self._app())
        made = group if group.name == self.name else group.commands[str(self.name)]
        assert isinstance(made, TyperCommand | TyperGroup)
        _adjust_parameters(made, typer.Context(made))
        return made

    def get_params(self, ctx: Any) -> Any:
        return self.complete.get_params(ctx)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        try:
            return self.complete.make_context(info_name, args, parent, **extra)
        except _UsageError as error:
            if error.ctx is None:  # an option without its value; the error then names the --help of this command
                error.ctx = typer.Context(self.complete, info_name=info_name, parent=parent)
            raise


class Subcommand(NamedTuple):
    """A row of a `ListedGroup`."""

    summary: str
    """The first paragraph of its help. A list of commands shows it without an import of the command."""
    app: Callable[[], typer.Typer]
    """Imports and returns the Typer, as in `DeferredCommand`."""


class ListedGroup(LazyGroup):
    """A command with a table of its subcommands. A subcommand is imported and built when it is used."""

    subcommands: ClassVar[Mapping[str, Subcommand]]
    """By their names, in the order of the help."""

    def names(self) -> Iterable[str]:
        return self.subcommands

    def build(self, name: str) -> DeferredCommand | None:
        return DeferredCommand(name, *self.subcommands[name]) if name in self.subcommands else None


@contextmanager
def as_command_error() -> Iterator[None]:
    """Wrong arguments and options in the block raise CommandError, with the --help to see."""
    try:
        yield
    except _UsageError as error:
        if type(error).__name__ == _HELP:
            raise
        raise CommandError(with_hint(_sentence(error), f"see {_command(error.ctx)} --help")) from None


def _command(context: Any) -> str:
    """The command of an error as the user has called it, such as `ci/drahealth run`."""
    root = context.find_root() if context else None
    if root and not isinstance(root.command, CommandGroup):
        return str(context.command_path)
    return command_name() + (context.command_path.removeprefix(str(root.info_name)) if root else "")


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
