"""The script of a fake container, from the command that a real runtime would run.

The language is a small part of shell: `["sh", "-c", "sleep 2; exit 1"]`, with `sleep SECONDS|infinity` and `exit CODE`
separated by `;`. In a real container the same text has the same effect, so one Pod manifest serves both. Any other
command, or none, runs until something ends it.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

_SHELLS = frozenset({"sh", "/bin/sh"})
_SLEEP = re.compile(r"\s*sleep\s+([0-9]+(?:\.[0-9]+)?|infinity)\s*", re.ASCII)
_EXIT = re.compile(r"\s*exit\s+([0-9]{1,3})\s*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Script:
    """A container that runs for `seconds` (`math.inf`: until ended), then exits with `code`."""

    seconds: float
    code: int = 0


UNTIL_ENDED = Script(math.inf)
"""The script of a container whose command is not a script."""


def parse(command: Sequence[str]) -> Script:
    """The script of a container's command and arguments; `UNTIL_ENDED` if it is not a script."""
    if len(command) != 3 or command[0] not in _SHELLS or command[1] != "-c":
        return UNTIL_ENDED
    statements = [_statement(text) for text in _split(command[2])]
    known = [statement for statement in statements if statement is not None]
    return _join(known) if len(known) == len(statements) else UNTIL_ENDED


def _split(text: str) -> list[str]:
    statements = text.split(";")
    return statements if statements[-1].strip() else statements[:-1]  # a `;` may also end the last statement


def _statement(text: str) -> float | int | None:
    """Seconds to sleep as float, an exit code as int, None for anything else."""
    if match := _SLEEP.fullmatch(text):
        return float(match[1])
    if (match := _EXIT.fullmatch(text)) and int(match[1]) <= 255:
        return int(match[1])
    return None


def _join(statements: Sequence[float | int]) -> Script:
    seconds = 0.0
    for statement in statements:
        if isinstance(statement, int):
            return Script(seconds, statement)
        seconds += statement
    return Script(seconds)
