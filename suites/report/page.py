"""The page: a self-contained HTML file of one result, or of several side by side."""

import hashlib
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from drahealth.proto.clock import format_seconds
from drahealth.proto.version import __version__
from drahealth.suites.driver_checks.evidence import Evidence
from drahealth.suites.report.document import CheckReport
from drahealth.suites.report.lanes import Bar, Group, Lane, Stretch
from drahealth.suites.report.page_view import ORDER, Column, ScenarioView, check_column, link, sections, shown
from drahealth.suites.report.shown_by_releases import shown_text

# Where the parts of lanes are in the picture: times as percentages of the run's duration. Pure.

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


# The scenarios of runs side by side, each with its devices over time. Pure.

ROWS = 200
"""The most scenarios of a page."""
_LANES = 600
"""The most lanes of a page; more scenarios are left out."""
_OPEN = 8
"""The most scenarios that are unfolded at first."""


@dataclass(frozen=True, slots=True)
class ScenarioCell:
    """A scenario in one result."""

    name: str
    """Name of the result."""
    outcome: str
    """Empty if the result does not have the scenario."""
    group: DrawnGroup | None
    """Its devices over time; None without a history."""


@dataclass(frozen=True, slots=True)
class ScenarioRow:
    """A scenario in all results."""

    title: str
    cells: tuple[ScenarioCell, ...]
    is_open: bool
    """Whether it is unfolded at first."""


@dataclass(frozen=True, slots=True)
class ScenarioTable:
    """The scenarios of a page."""

    rows: tuple[ScenarioRow, ...]
    left_out: int
    """Number of scenarios with a history for which there is no room."""


def scenario_table(results: Sequence[Column]) -> ScenarioTable:
    """Scenarios whose outcomes differ come first, then those that did not pass, then the others with changes."""
    runs = [result for result in results if result.scenarios is not None]
    views: dict[str, list[ScenarioView | None]] = {}
    for number, result in enumerate(runs):
        for name, view in (result.scenarios or {}).items():
            views.setdefault(name, [None] * len(runs))[number] = view
    drawable = [row for row in views.values() if any(view and view.group for view in row)]
    drawable.sort(key=lambda row: (not _differs(row), not _is_broken(row), not _has_changes(row)))
    kept, lanes = [], 0
    for row in drawable[:ROWS]:
        lanes += sum(len(view.group.lanes) for view in row if view and view.group)
        if lanes <= _LANES:
            kept.append(row)
    return ScenarioTable(tuple(_rows(kept, [run.name for run in runs])), len(drawable) - len(kept))


def _rows(rows: Sequence[Sequence[ScenarioView | None]], names: Sequence[str]) -> Iterator[ScenarioRow]:
    drawn = iter(picture([view.group for row in rows for view in row if view and view.group]))
    loud = sum(_differs(row) or _is_broken(row) for row in rows)
    for number, row in enumerate(rows):
        cells = tuple(
            ScenarioCell(name, view.outcome if view else "", next(drawn) if view and view.group else None)
            for name, view in zip(names, row, strict=True)
        )
        title = next(view.title for view in row if view)
        yield ScenarioRow(title, cells, number < min(loud or 1, _OPEN))


def _differs(row: Sequence[ScenarioView | None]) -> bool:
    return len({view.outcome for view in row if view}) > 1


def _is_broken(row: Sequence[ScenarioView | None]) -> bool:
    return any(view.outcome in ("failed", "error", "known issue") for view in row if view)


def _has_changes(row: Sequence[ScenarioView | None]) -> bool:
    return any(lane.is_eventful for view in row if view and view.group for lane in view.group.lanes)


# The page: a self-contained HTML file of one result, or of several side by side. No scripts, no network.

SIGNS = {
    "PASS": "✓",
    "FAIL": "✗",
    "ERROR": "!",
    "NOT_TESTED": "?",
    "KNOWN ISSUE": "≈",
    "WAIVED": "~",
    "STATIC": "=",
    "NOT_APPLICABLE": "-",
    "": "·",
}
"""A sign for each verdict, so that a reader needs no colours."""

OUTCOMES = {
    "passed": "PASS",
    "failed": "FAIL",
    "error": "ERROR",
    "known issue": "KNOWN ISSUE",
    "not applicable": "NOT_APPLICABLE",
    "": "",
}
"""The verdict by which the outcome of a scenario is shown."""


def page(report: CheckReport, evidence: Evidence | None = None) -> str:
    """The page of one run; the lanes over time need its evidence. Not above 4 MB."""
    return page_of([check_column(report, evidence)])


def page_of(results: Sequence[Column]) -> str:
    """The page of some results, side by side."""
    from markupsafe import Markup

    style = text_of("page.css")
    digest = b64encode(hashlib.sha256(style.encode()).digest()).decode()
    found = sections(results)
    worst = {row.worst for section in found for row in section.rows}
    return render(
        "page.html.jinja",
        results=results,
        pictures=[picture(result.lanes) if result.lanes else None for result in results],
        scenarios=scenario_table(results),
        sections=found,
        verdicts=[verdict for verdict in ORDER if verdict in worst],
        levels=list(dict.fromkeys(row.requirement.level for section in found for row in section.rows)),
        signs=SIGNS,
        outcomes=OUTCOMES,
        style=Markup(style),  # our own file: escaped, it would be no style sheet, and not have this digest
        digest=digest,
        version=__version__,
    )


# The templates of this folder. All text that they insert is escaped, and not too long.


def render(name: str, **values: Any) -> str:
    """The template with these values. Raises jinja2.UndefinedError for a missing one."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(text_of),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: shown(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"link": link, "shown_text": shown_text}
    return environment.get_template(name).render(values)


@cache
def text_of(name: str) -> str:
    """The content of a file of this folder."""
    return resources.files("drahealth.suites.report").joinpath(name).read_text(encoding="utf-8")
