"""Prints events as JSON Lines: one event of docs/events.md on each line, starting with its `time` (RFC 3339)."""

from typing import TextIO

from drahealth.fakes.program.json_lines import LineWriter
from drahealth.proto.clock import Clock
from drahealth.proto.events import IN_FULL, CheckpointWritten, Event, to_json


def is_shown(event: Event) -> bool:
    """Whether the event is printed: not full wire messages, and checkpoints only if their write failed."""
    return not isinstance(event, IN_FULL) and not (isinstance(event, CheckpointWritten) and event.ok)


class JsonLines:
    """The observer that writes them to `output`, until `close`."""

    def __init__(self, output: TextIO, clock: Clock) -> None:
        self._writer = LineWriter(output, clock)

    def __call__(self, event: Event, /) -> None:
        if is_shown(event):
            self._writer.write(to_json(event))

    def close(self) -> None:
        """Returns when all lines are written, or the reader has stopped."""
        self._writer.close()
