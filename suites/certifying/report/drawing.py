"""Where the parts of lanes are in the picture: times as percentages of the run's duration. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from drahealth.proto.clock import format_seconds
from drahealth.suites.certifying.report.bars import Bar, Stretch
from drahealth.suites.certifying.report.lanes import Group, Lane
from drahealth.suites.certifying.report.results import shown

_SHAPES = 150
"""The most spans of one bar, and the most reports of one bar."""
_ALL_SHAPES = 4000
"""About the most spans and reports of a picture: with many bars, each has fewer."""
_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600)
_LABELS = 8
"""The most labels of a time axis."""
_LABEL_WIDTH = 5
"""Percent of the axis that a label takes in a narrow window."""
_HEIGHT = 14
"""Pixels of a bar."""


@dataclass(frozen=True, slots=True)
class _Scale:
    """The time axis."""

    start: float
    seconds: float
    shapes: int
    """The most spans, and the most reports, of one bar."""

    def percent(self, at: float) -> float:
        """Where a time is."""
        return round(min(max(100 * (at - self.start) / self.seconds, 0.0), 100.0), 2)


@dataclass(frozen=True, slots=True)
class Shape:
    """A rectangle, or a line if it has no width."""

    kind: str
    """Its class in the style sheet."""
    x: float
    width: float
    text: str
    """What the reader sees when pointing at it."""


@dataclass(frozen=True, slots=True)
class DrawnBar:
    """A bar with its label."""

    source: str
    y: int
    shapes: tuple[Shape, ...]
    summary: str
    """The same in words, for readers who cannot see the picture."""


@dataclass(frozen=True, slots=True)
class DrawnLane:
    """A device."""

    name: str
    bars: tuple[DrawnBar, ...]
    height: int


@dataclass(frozen=True, slots=True)
class DrawnGroup:
    """A process of the driver."""

    process: str
    lanes: tuple[DrawnLane, ...]
    marks: tuple[Shape, ...]
    events: tuple[str, ...]
    """The marks as lines of text."""
    left_out: int
    grid: tuple[tuple[float, str], ...]
    """The time axis: positions and their labels."""


def picture(lanes: Sequence[Group]) -> tuple[DrawnGroup, ...]:
    """The picture of lanes. Each process has a time axis of its own."""
    bars = sum(len(lane.bars) for group in lanes for lane in group.lanes)
    shapes = max(5, min(_SHAPES, _ALL_SHAPES // max(bars, 1)))
    return tuple(_group(group, shapes) for group in lanes)


def _group(group: Group, shapes: int) -> DrawnGroup:
    start, end = group.times
    margin = max((end - start) / 100, 0.001)
    scale = _Scale(max(0.0, start - margin), end - start + 2 * margin, shapes)
    marks = tuple(
        Shape(mark.kind, scale.percent(mark.at), 0, f"{format_seconds(mark.at)}: {shown(mark.text, 300)}")
        for mark in group.marks
    )
    lanes = tuple(_lane(lane, scale) for lane in group.lanes)
    grid = tuple(_grid(scale))
    return DrawnGroup(group.process, lanes, marks, tuple(mark.text for mark in marks), group.left_out, grid)


def _grid(scale: _Scale) -> Iterator[tuple[float, str]]:
    """Round times on the axis, with their labels."""
    step = next((one for one in _STEPS if scale.seconds / one <= _LABELS), scale.seconds / _LABELS)
    for number in range(int(scale.start / step) + 1, int((scale.start + scale.seconds) / step) + 1):
        if (x := scale.percent(number * step)) > _LABEL_WIDTH:  # the label ends at the position
            yield x, f"{number * step:g} s"


def _lane(lane: Lane, scale: _Scale) -> DrawnLane:
    bars = tuple(_bar(bar, number * (_HEIGHT + 4), scale) for number, bar in enumerate(lane.bars))
    return DrawnLane(shown(lane.name, 100), bars, len(bars) * (_HEIGHT + 4))


def _bar(bar: Bar, y: int, scale: _Scale) -> DrawnBar:
    shapes = (
        *_spans(bar, scale),
        *_ticks(bar, scale),
        *_stretches("late", bar.late, scale),
        *_stretches("faulted", bar.faults, scale),
    )
    changes = [f"{span.health} from {format_seconds(span.start)}" for span in bar.spans[: scale.shapes]]
    summary = "; ".join([*changes[:20], *(shown(one.text, 300) for one in (*bar.late[:5], *bar.faults[:5]))])
    return DrawnBar(shown(bar.source, 100), y, shapes, summary)


def _spans(bar: Bar, scale: _Scale) -> Iterator[Shape]:
    for span in bar.spans[: scale.shapes]:
        message = f", {shown(span.message, 200)!r}" if span.message else ""
        text = f"{span.health}{message}, {format_seconds(span.start)} to {format_seconds(span.end)}"
        x = scale.percent(span.start)
        yield Shape(span.health.lower(), x, round(scale.percent(span.end) - x, 2), text)


def _ticks(bar: Bar, scale: _Scale) -> Iterator[Shape]:
    last = -1.0
    for at in bar.ticks:
        x = scale.percent(at)
        if x - last >= 100 / scale.shapes:
            last = x
            yield Shape("report", x, 0, f"report at {format_seconds(at)}")


def _stretches(kind: str, stretches: Sequence[Stretch], scale: _Scale) -> Iterator[Shape]:
    for one in stretches[: scale.shapes]:
        x = scale.percent(one.start)
        text = f"{kind}: {shown(one.text, 300)}, {format_seconds(one.start)} to {format_seconds(one.end)}"
        yield Shape(kind, x, round(scale.percent(one.end) - x, 2), text)
