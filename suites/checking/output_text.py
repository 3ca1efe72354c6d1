"""What the output of a program says about its end: the first line that looks like the cause, and the last one. Pure."""

import re
from collections.abc import Sequence

_CAUSE = re.compile(
    r"error|exception|panic|fatal|fail|cannot|can't|not defined|not found|no such|invalid|denied|refused|"
    r"(unknown|unrecognized) (flag|option|shorthand|command|argument)",
    re.IGNORECASE,
)
"""Words of a line that looks like the cause of an end."""
_FOLLOWS = ("Traceback ", " ", "\t")
"""Starts of lines that do not say the cause by themselves, such as those of a stack."""


def output_text(output: Sequence[str]) -> str:
    """The lines of an output that explain an end, to be added to a reason; empty without output."""
    if not output:
        return ""
    last = f"; its last line of output: {output[-1]}"
    cause = cause_in(output)
    return f"; its output: {cause}{last}" if cause not in ("", output[-1]) else last


def cause_in(output: Sequence[str]) -> str:
    """The first line that looks like the cause of an end; empty if there is none."""
    return next((line for line in output if _CAUSE.search(line) and not line.startswith(_FOLLOWS)), "")
