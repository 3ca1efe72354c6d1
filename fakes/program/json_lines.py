"""JSON lines for whoever reads them: a slow reader, or one that does not read at all, holds up nothing.

They are written by a thread of their own; what does not fit into its queue is left out, and counted in the next line
that does (`left_out_before`).
"""

import json
import os
import queue
import threading
from datetime import UTC, datetime
from typing import Any, TextIO

from drahealth.proto.clock import Clock

WAITING = 10_000
"""Lines that may wait for the reader."""

PATIENCE = 2.0
"""Seconds that the last lines get at the end."""

Line = dict[str, Any]


class LineWriter:
    """Writes to `output` until `close`: each line with its `time` (RFC 3339) and `event` before all else."""

    def __init__(self, output: TextIO, clock: Clock) -> None:
        self._output = output
        self._clock = clock
        self._waiting: queue.Queue[Line | None] = queue.Queue(WAITING)
        self._left_out = 0
        self._writer = threading.Thread(target=self._write, name="JSON lines", daemon=True)
        self._writer.start()

    def write(self, line: Line) -> None:
        """It is written as soon as it can."""
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
        """Returns when all is written, or the reader does not take it."""
        try:
            self._waiting.put(None, timeout=PATIENCE)
        except queue.Full:
            return
        self._writer.join(PATIENCE)

    def _write(self) -> None:
        while (line := self._waiting.get()) is not None:
            try:
                self._output.write(json.dumps(line) + "\n")
                if self._waiting.empty():
                    self._output.flush()
            except (OSError, ValueError):  # nobody reads any more; the program goes on
                self._read_no_more()
                return

    def _read_no_more(self) -> None:
        """The interpreter would complain at its end of what is left in the buffer."""
        with open(os.devnull, "w") as nowhere:  # noqa: PTH123  (no path of ours)
            os.dup2(nowhere.fileno(), self._output.fileno())
        while self._waiting.get() is not None:
            pass
