"""The end of a component's log, and its most important line."""

import re
from pathlib import Path

_TAIL = 32 * 1024
_TELLING = (
    re.compile(r"^F\d{4} "),
    re.compile(r"^(?:panic|fatal error|Error|error): "),
    re.compile(r'"level":"(?:fatal|panic)"'),
    re.compile(r"^E\d{4} "),
    re.compile(r'"level":"error"'),
)
_KLOG_PREFIX = re.compile(r"^[EFIW]\d{4} [\d:.]+ +\d+ ")


def tail(path: Path, lines: int = 20) -> str:
    """The last lines of a log; "" if there is none."""
    return "\n".join(_read_end(path).splitlines()[-lines:])


def note(name: str, path: Path) -> str:
    """The last lines under a heading, for an error: the log itself is removed with its run."""
    return f"The last lines of {name}:\n{tail(path)}"


def telling_line(path: Path) -> str:
    """The last line of the highest severity at the end of the log."""
    return choose_line(_read_end(path)) or "its log is empty"


def choose_line(text: str) -> str:
    """The last line of the highest severity in a text, without the time and thread of klog; "" if it has no line."""
    lines = [line for line in text.splitlines() if line.strip()]
    for kind in _TELLING:
        for line in reversed(lines):
            if kind.search(line):
                return _KLOG_PREFIX.sub("", line).strip()
    return lines[-1].strip() if lines else ""


def _read_end(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
