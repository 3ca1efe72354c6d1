"""Prints tables of commands."""

import sys

from rich.console import Console

_WIDEST = 10_000
"""Columns where output is no terminal: there lines are read by programs, and none is broken or cut."""


def standard_output() -> Console:
    """Standard output, with the width of its terminal."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else _WIDEST)
