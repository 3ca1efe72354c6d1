"""Prints tables of commands."""

import sys

from rich.console import Console

_WIDEST = 10_000
"""Columns if the output is not a terminal: programs read it, so no line is wrapped or cut."""


def standard_output() -> Console:
    """Standard output, with the width of its terminal."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else _WIDEST)
