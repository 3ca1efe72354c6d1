"""The name of this command as the user has called it, for commands that the user can copy and run.

Files that other people read have the name `drahealth`.
"""

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

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
