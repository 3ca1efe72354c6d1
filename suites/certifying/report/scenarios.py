"""The scenarios of runs side by side, each with its devices over time. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from drahealth.suites.certifying.report.drawing import DrawnGroup, picture
from drahealth.suites.certifying.report.results import Result, ScenarioView

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


def scenario_table(results: Sequence[Result]) -> ScenarioTable:
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
