"""What happens as JSON lines: one object an event, with `time` (RFC 3339) and `event`.

They are written by a thread of their own, so that a reader who is slow, or does not read at all, holds up nothing; what
does not fit into the queue is left out, and counted in the next line that does.
"""

import json
import os
import queue
import threading
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, TextIO

from drahealth.manager.observer import (
    CheckpointWritten,
    PluginDeregistered,
    PluginRegistered,
    PodsNotified,
    ReportTaken,
    StreamEnded,
    StreamOpened,
)
from drahealth.proto.clock import Clock
from drahealth.suites.standalone.events import Event, ManifestRefused, PodGone, Started, StatusChanged, Stopped
from drahealth.suites.story.workload import status_seen

WAITING = 10_000
"""Lines that may wait for the reader."""

PATIENCE = 2.0
"""Seconds that the last lines get at the end."""

Line = dict[str, Any]


def lines_of(event: Event) -> Iterator[Line]:
    """The event as plain data; a report is one line, and one for each device that it changed."""
    match event:
        case Started():
            yield {"event": "started", **asdict(event)}
        case PluginRegistered():
            yield {"event": "registered", **asdict(event)}
        case PluginDeregistered():
            yield {"event": "deregistered", **asdict(event)}
        case StreamOpened():
            yield {"event": "stream-opened", **asdict(event)}
        case StreamEnded():
            yield {"event": "stream-ended", **asdict(event)}
        case ReportTaken(driver, devices, changed):
            yield {"event": "report", "driver": driver, "devices": devices, "changed": len(changed)}
            for device, reading in changed:
                yield {"event": "change", "device": str(device), **asdict(reading)}
        case PodsNotified(pods):
            yield {"event": "notified", "pods": sorted(pods)}
        case CheckpointWritten(ok=False):
            yield {"event": "error", "file": event.file, "problem": "the checkpoint could not be written"}
        case ManifestRefused():
            yield {"event": "error", **asdict(event)}
        case StatusChanged(pod):
            yield {"namespace": pod["metadata"]["namespace"], **asdict(status_seen(pod)), "event": "status"}
        case PodGone(pod):
            names = {key: pod["metadata"][key] for key in ("namespace", "name", "uid")}
            yield {"event": "gone", "namespace": names["namespace"], "pod": names["name"], "uid": names["uid"]}
        case Stopped():
            yield {"event": "stopped"}


class JsonLines:
    """The onlooker that writes them to `output`, until `close`."""

    def __init__(self, output: TextIO, clock: Clock) -> None:
        self._output = output
        self._clock = clock
        self._waiting: queue.Queue[Line | None] = queue.Queue(WAITING)
        self._left_out = 0
        self._writer = threading.Thread(target=self._write, name="JSON lines", daemon=True)
        self._writer.start()

    def __call__(self, event: Event, /) -> None:
        time = datetime.fromtimestamp(self._clock.wall(), UTC).isoformat()
        for line in lines_of(event):
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
            except (OSError, ValueError):  # nobody reads any more; the node goes on
                self._read_no_more()
                return

    def _read_no_more(self) -> None:
        """The interpreter would complain at its end of what is left in the buffer."""
        with open(os.devnull, "w") as nowhere:  # noqa: PTH123  (no path of ours)
            os.dup2(nowhere.fileno(), self._output.fileno())
        while self._waiting.get() is not None:
            pass
