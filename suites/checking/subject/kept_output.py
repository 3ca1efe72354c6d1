"""The first and the last lines of the output of a driver."""

from collections import deque
from collections.abc import Sequence

from drahealth.proto.quoting import printable_lines

FIRST_LINES = 10
"""Number of the first lines of output that are kept: many programs begin with the cause, and then print their usage."""
OUTPUT_LINES = 20
"""Number of the last lines of output that are kept."""
LINE_LIMIT = 1000
"""Characters of a line that are kept."""


class KeptOutput:
    """Keeps some of the lines that are added."""

    def __init__(self) -> None:
        self._first: list[bytes] = []
        self._lines: deque[bytes] = deque(maxlen=OUTPUT_LINES)
        self._left_out = 0
        """Number of lines between the first and the last ones."""

    def add(self, lines: Sequence[bytes]) -> None:
        """Adds lines without their ends."""
        first = max(FIRST_LINES - len(self._first), 0)
        self._first += (line[: 4 * LINE_LIMIT] for line in lines[:first])
        last = lines[first:]
        self._left_out += max(len(self._lines) + len(last) - OUTPUT_LINES, 0)
        self._lines.extend(line[: 4 * LINE_LIMIT] for line in last[-OUTPUT_LINES:])

    def texts(self) -> tuple[str, ...]:
        """The lines that are not empty. A line in brackets stands for those between the first and the last ones."""
        more = [f"[{self._left_out} more lines]".encode()] if self._left_out else []
        texts = (line.decode(errors="replace") for line in (*self._first, *more, *self._lines))
        return tuple(printable_lines(text)[:LINE_LIMIT] for text in texts if text.strip())
