"""Subcommands whose usage errors are one sentence with a hint, and the name of the command as called."""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

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

    def load(self, name: str) -> Any:
        """The subcommand with this name, complete; None if it is unknown."""
        return self.commands.get(name)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses its own arguments. Raises CommandError."""
        _adjust_parameters(self, ctx)
        with as_command_error(ctx):
            return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The subcommand that the arguments begin with. Raises CommandError if it is unknown."""
        found = self.load(args[0])
        if found is None:
            if args[0].startswith("-"):
                return super().resolve_command(ctx, args)
            known = near(args[0], self.list_commands(ctx))
            raise CommandError(f"unknown command {args[0]!r} of {ctx.command_path}; {known}")
        _adjust_parameters(found, ctx)
        return args[0], found, args[1:]

    def invoke(self, ctx: Any) -> Any:
        """Parses the subcommand's arguments and runs it. Raises CommandError."""
        with as_command_error(ctx):
            return super().invoke(ctx)


class LazyGroup(CommandGroup):
    """Imports a subcommand when it is used, as the LazyGroup in click's documentation does.

    A list of its subcommands needs no import: it has the summary of each.
    """

    subcommands: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """By the name of each: a module, whose `app` is the subcommand or has it, and the first paragraph of its help."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all subcommands, in their order."""
        return [*self.subcommands, *super().list_commands(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The subcommand with this name, for lists."""
        if cmd_name in self.subcommands:
            return TyperCommand(cmd_name, help=self.subcommands[cmd_name][1])
        return super().get_command(ctx, cmd_name)

    def load(self, name: str) -> Any:
        if name not in self.subcommands:
            return super().load(name)
        group = get_group(import_module(self.subcommands[name][0]).app)
        return group if group.name == name else group.commands[name]


class SingleCommand(TyperCommand):
    """A command without subcommands, as a program of its own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses its arguments."""
        _adjust_parameters(self, ctx)
        return super().parse_args(ctx, args)


def _adjust_parameters(command: Any, ctx: Any) -> None:
    """Hides the Python types that typer prints in help for flags and arguments, such as `<bool>`.

    It also gives flags such as `--help` a default, but not those with an opposite, such as `--listed/--unlisted`.
    Without one, typer imports pydantic to convert None, which is slow.
    """
    for parameter in command.get_params(ctx):
        is_argument = isinstance(parameter, TyperArgument)
        if is_argument or parameter.is_flag:
            parameter.display_type_rich = lambda ctx: None
        if not is_argument and parameter.is_flag and not parameter.secondary_opts and parameter.default is None:
            parameter.default = False


@contextmanager
def as_command_error(context: Any = None) -> Iterator[None]:
    """Wrong arguments and options in the block raise CommandError, with the --help to see: that of the context, if the
    error has none."""
    try:
        yield
    except _UsageError as error:
        if type(error).__name__ == _HELP:
            raise
        where = error.ctx or context
        path = f"{where.command_path} {'' if error.ctx else where.invoked_subcommand or ''}".strip()
        root = where.find_root()
        if isinstance(root.command, CommandGroup):
            path = command_name() + path.removeprefix(str(root.info_name))
        raise CommandError(with_hint(_sentence(error), f"see {path} --help")) from None


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
