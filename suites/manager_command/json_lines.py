"""What happens as JSON lines: one object an event, with `time` (RFC 3339) and `event`."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import TextIO

from drahealth.fakes.program.json_lines import Line, LineWriter
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
from drahealth.suites.manager_command.events import Event, ManifestRefused, PodGone, Started, StatusChanged, Stopped
from drahealth.suites.story.pod_status import status_seen


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
        self._writer = LineWriter(output, clock)

    def __call__(self, event: Event, /) -> None:
        for line in lines_of(event):
            self._writer.write(line)

    def close(self) -> None:
        """Returns when all is written, or the reader does not take it."""
        self._writer.close()
