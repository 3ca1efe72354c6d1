"""A history as readable text: one line per event. Pod statuses and events are indented."""

from collections.abc import Iterator, Sequence

from drahealth.proto.event_text import format_event
from drahealth.proto.events import Record
from drahealth.suites.judging.kubelet_side import one_side

_LINES = 60
"""Lines of the start and of the end of a long history."""


def format_history(records: Sequence[Record]) -> str:
    """The history, with times in seconds since its first event. The middle of a long history is omitted."""
    if not records:
        return "nothing happened"
    records = one_side(records)
    start = records[0].at
    lines = [f"{record.at - start:8.3f} s  {format_event(record.what)}" for record in records]
    return "\n".join(_shortened(lines))


def _shortened(lines: Sequence[str]) -> Iterator[str]:
    if len(lines) <= 2 * _LINES:
        yield from lines
        return
    yield from lines[:_LINES]
    yield f"           ... {len(lines) - 2 * _LINES} more ..."
    yield from lines[-_LINES:]
