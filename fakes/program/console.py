"""Prints tables and lines of commands."""

import sys

from rich.console import Console
from rich.text import Text

_WIDEST = 10_000
"""Columns if the output is not a terminal: programs read it, so no line is wrapped or cut."""


_INDENT = 4
"""Columns by which the further lines of a folded line are indented."""


def print_line(console: Console, line: Text) -> None:
    """Prints a line. On a terminal it is folded at words, and what follows is indented.

    Other readers get one line. A line with a word that has no room, such as a link, stays whole, so it can be copied.
    """
    start = len(line.plain) - len(line.plain.lstrip())
    indent = min(start, console.width // 4)
    room = console.width - indent - _INDENT
    fits = line.cell_len <= console.width or any(len(word) > room for word in line.plain.split())
    if fits or not console.is_terminal:
        console.print(line, soft_wrap=True)
        return
    for number, part in enumerate(line[start:].wrap(console, room)):
        part.rstrip()
        console.print(Text(" " * (indent + _INDENT * (number > 0))) + part, soft_wrap=True)


def standard_output() -> Console:
    """Standard output, with the width of its terminal."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else _WIDEST)
