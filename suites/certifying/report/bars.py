"""Bars: the health of a device over time, from one source. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from drahealth.proto.values import Health


@dataclass(frozen=True, slots=True)
class Span:
    """A time with the same health and message."""

    start: float
    end: float
    health: Health
    message: str


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time in which a report was late, or in which a device had a fault."""

    start: float
    end: float
    text: str


@dataclass(frozen=True, slots=True)
class Bar:
    """The health of a device as one source reports it."""

    source: str
    """A health API with its stream, or the Pod status with its container."""
    spans: tuple[Span, ...]
    ticks: tuple[float, ...] = ()
    """When it was reported."""
    late: tuple[Stretch, ...] = ()
    """Times after the timeout of the last report, and before the next one."""
    faults: tuple[Stretch, ...] = ()
    """Times in which drahealth had broken the device."""


def merged(spans: Iterable[Span]) -> Iterator[Span]:
    """The spans in order; adjacent ones with the same health and message are one."""
    last: Span | None = None
    for span in spans:
        if last and (last.end, last.health, last.message) == (span.start, span.health, span.message):
            last = replace(last, end=span.end)
            continue
        if last:
            yield last
        last = span
    if last:
        yield last
