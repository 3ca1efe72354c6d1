"""The script of a fake container, from the command that a real runtime would run.

The language is a small part of shell: `["sh", "-c", "echo ready; sleep 2; exit 1"]`, with `echo TEXT`, `sleep
SECONDS|infinity` and `exit CODE` separated by `;`. In a real container the same text has the same effect, so one Pod
manifest serves both. Any other command, or none, runs until something ends it.

For a Pod whose command must stay, an annotation has the text instead: `runtime.example.com/script` for all its
containers, or `runtime.example.com/script.NAME` for one.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_SHELLS = frozenset({"sh", "/bin/sh"})
_SLEEP = re.compile(r"\s*sleep\s+([0-9]+(?:\.[0-9]+)?|infinity)\s*", re.ASCII)
_ECHO = re.compile(r"\s*echo(?:\s+(\S.*?))?\s*")
_EXIT = re.compile(r"\s*exit\s+([0-9]{1,3})\s*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Script:
    """A container that runs for `seconds` (`math.inf`: until ended), then exits with `code`.

    `lines` are its lines of output, each with the second in which it is written.
    """

    seconds: float
    code: int = 0
    lines: tuple[tuple[float, str], ...] = ()


UNTIL_ENDED = Script(math.inf)
"""The script of a container whose command is not a script."""


def parse(command: Sequence[str]) -> Script:
    """The script of a container's command and arguments; `UNTIL_ENDED` if it is not a script."""
    if len(command) != 3 or command[0] not in _SHELLS or command[1] != "-c":
        return UNTIL_ENDED
    statements = [_statement(text) for text in _split(command[2])]
    known = [statement for statement in statements if statement is not None]
    return _join(known) if len(known) == len(statements) else UNTIL_ENDED


ANNOTATION = "runtime.example.com/script"
"""The annotation of a Pod with the script of all containers; with `.NAME` that of one container."""


def parse_annotation(annotations: Mapping[str, str], container: str) -> Script | None:
    """The script that a Pod's annotations have for the container, or None. Raises ValueError if it is invalid."""
    key = f"{ANNOTATION}.{container}"
    text = annotations.get(key, annotations.get(ANNOTATION))
    if text is None:
        return None
    script = parse(["sh", "-c", text])
    if script == UNTIL_ENDED:
        raise ValueError(f"the annotation {ANNOTATION} may have only `echo`, `sleep` and `exit`, got {text[:100]!r}")
    return script


def _split(text: str) -> list[str]:
    statements = text.split(";")
    return statements if statements[-1].strip() else statements[:-1]  # a `;` may also end the last statement


def _statement(text: str) -> float | int | str | None:
    """Seconds to sleep as float, an exit code as int, a line of output as str, None for anything else."""
    if match := _ECHO.fullmatch(text):
        return _unquoted(match[1] or "")
    if match := _SLEEP.fullmatch(text):
        return float(match[1])
    if (match := _EXIT.fullmatch(text)) and int(match[1]) <= 255:
        return int(match[1])
    return None


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def _join(statements: Sequence[float | int | str]) -> Script:
    seconds, lines = 0.0, []
    for statement in statements:
        if isinstance(statement, str):
            lines.append((seconds, statement))
        elif isinstance(statement, int):
            return Script(seconds, statement, tuple(lines))
        else:
            seconds += statement
    return Script(seconds, lines=tuple(lines))
