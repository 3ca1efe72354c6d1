"""How a driver exited. Its output says why: the first line that looks like the cause, and the last one."""

import re
import signal
from collections.abc import Iterable, Sequence

from drahealth.proto.events import ProcessExited

EXITED = "the driver exited"
"""The short form of `exit_text`."""

_CAUSE = re.compile(
    r"error|exception|panic|fatal|fail|cannot|can't|not defined|not found|no such|invalid|denied|refused|"
    r"(unknown|unrecognized) (flag|option|shorthand|command|argument)",
    re.IGNORECASE,
)
"""Words of a line that looks like the cause of an end."""
_FOLLOWS = ("Traceback ", " ", "\t")
"""Starts of lines that do not say the cause by themselves, such as those of a stack."""


def exit_text(exit_: ProcessExited) -> str:
    """How a process ended, with the lines of its output that explain it."""
    return f"{EXITED} {_how(exit_.exit_code)}{output_text(exit_.output)}"


def _how(code: int) -> str:
    if code >= 0:
        return f"with code {code}"
    return f"by {signal.Signals(-code).name}" if -code in set(signal.Signals) else f"by signal {-code}"


def without_exits(text: str, exits: Iterable[str]) -> str:
    """A text in which these exits, each a result of `exit_text`, have the short form."""
    for one in exits:
        text = text.replace(one, EXITED)
    return text


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
