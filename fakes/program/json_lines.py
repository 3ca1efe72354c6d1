"""Writes JSON lines; a slow reader, or one that stopped reading, blocks nothing.

A separate thread writes them. Lines that do not fit into its queue are dropped; the next line has their number
(`left_out_before`).
"""

import json
import os
import queue
import threading
from datetime import UTC, datetime
from typing import Any, TextIO

from drahealth.proto.clock import Clock

MAX_QUEUED = 10_000
"""Maximum number of queued lines."""

CLOSE_TIMEOUT = 2.0
"""Seconds to write the last lines at the end."""

Line = dict[str, Any]


class LineWriter:
    """Writes to `output` until `close`: each line starts with `time` (RFC 3339) and `event`."""

    def __init__(self, output: TextIO, clock: Clock) -> None:
        self._output = output
        self._clock = clock
        self._waiting: queue.Queue[Line | None] = queue.Queue(MAX_QUEUED)
        self._left_out = 0
        self._writer = threading.Thread(target=self._write, name="JSON lines", daemon=True)
        self._writer.start()

    def write(self, line: Line) -> None:
        """Adds a line, to be written as soon as possible."""
        time = datetime.fromtimestamp(self._clock.wall(), UTC).isoformat()
        if self._left_out:
            line = {**line, "left_out_before": self._left_out}
        try:
            self._waiting.put_nowait({"time": time, "event": line["event"], **line})
        except queue.Full:
            self._left_out += 1
        else:
            self._left_out = 0

    def close(self) -> None:
        """Waits until all lines are written, or the reader has stopped reading."""
        try:
            self._waiting.put(None, timeout=CLOSE_TIMEOUT)
        except queue.Full:
            return
        self._writer.join(CLOSE_TIMEOUT)

    def _write(self) -> None:
        while (line := self._waiting.get()) is not None:
            try:
                self._output.write(json.dumps(line) + "\n")
                if self._waiting.empty():
                    self._output.flush()
            except (OSError, ValueError):  # the reader has gone; the program continues
                self._discard()
                return

    def _discard(self) -> None:
        """Discards the buffer, so that the interpreter prints no error at its end."""
        with open(os.devnull, "w") as nowhere:  # noqa: PTH123  (no path of ours)
            os.dup2(nowhere.fileno(), self._output.fileno())
        while self._waiting.get() is not None:
            pass
