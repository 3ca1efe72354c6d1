"""Health streams that the kubelet ended without a cause. Pure.

A kubelet ends the stream of an instance that deregisters or ends, or that a newer instance replaces. It also ends all
streams when it stops itself. The driver may see the end of the stream shortly before the cause.
"""

from collections.abc import Iterator, Sequence

from drahealth.proto.events import (
    CANCELLED,
    GateSet,
    PluginDeregistered,
    PluginRegistered,
    Record,
    Registered,
    Restarted,
    Stopped,
    StreamClosed,
    StreamOpened,
    Unregistered,
)

LATE = 5.0
"""Seconds from the end of a stream until its cause is recorded, at most."""

_BY_KUBELET = (CANCELLED, "ended by the manager")


def without_cause(records: Sequence[Record]) -> set[tuple[str, str]]:
    """The streams that the kubelet ended without a cause, by driver and stream."""
    opened: dict[tuple[str, str], float] = {}
    found: set[tuple[str, str]] = set()
    for record in records:
        match record.what:
            case StreamOpened(driver=driver, stream=stream):
                opened[driver, stream] = record.at
            case StreamClosed() as closed if closed.why in _BY_KUBELET:
                since = opened.get((closed.driver, closed.stream), record.at)
                if not any(since < at <= record.at + LATE for at in _causes(records, closed)):
                    found.add((closed.driver, closed.stream))
    return found


def _causes(records: Sequence[Record], closed: StreamClosed) -> Iterator[float]:
    """The times of the causes for a kubelet to end this stream."""
    for record in records:
        match record.what:
            case Registered(driver=driver, instance=name) | PluginRegistered(driver=driver, endpoint=name):
                if driver == closed.driver and name != closed.instance:
                    yield record.at
            case Unregistered(driver=driver) | PluginDeregistered(driver=driver):
                if driver == closed.driver:
                    yield record.at
            case Stopped("kubelet") | Restarted("kubelet") | GateSet():
                yield record.at
