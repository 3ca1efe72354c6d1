"""The progress of a run: a line for each experiment at its start and its end, and the time that is left."""

import time
from collections.abc import Mapping, Sequence
from typing import Protocol

from drahealth.proto.events import Event, ExperimentEnded, ExperimentStarted, ProcessExited, ReportReceived
from drahealth.proto.quoting import printable
from drahealth.suites.checking.checks import CHECKS
from drahealth.suites.checking.duration import duration
from drahealth.suites.checking.experiments.plan import EXPERIMENTS
from drahealth.suites.checking.ledger import requirements
from drahealth.suites.checking.output_text import exit_text, without_exits
from drahealth.suites.checking.settings import Settings

_SHOWN = 3
"""The most requirements of a line."""


class Clock(Protocol):
    """Monotonic seconds."""

    def __call__(self) -> float: ...


class View(Protocol):
    """Where the progress is shown."""

    def line(self, text: str) -> None:
        """Shows a line that stays."""

    def status(self, text: str) -> None:
        """Shows the present state, once a second."""


class Progress:
    """A listener of a run."""

    def __init__(self, settings: Settings, view: View, only: Sequence[str] = (), now: Clock = time.monotonic) -> None:
        """`only` are the IDs of the requirements that are judged; empty for all of the level."""
        self._view = view
        self._now = now
        self._began = now()
        self._planned = duration(settings)
        self._judged = judged_by(settings, only)
        self._started: dict[str, float] = {}
        self._not_done: set[str] = set()
        self._exits: list[str] = []
        self._reports = 0
        self._level = settings.level
        self._has_begun = False

    def __call__(self, experiment: str, event: Event) -> None:
        """Shows an event of an experiment. Before the first one, shows how much the run judges, and its usual time."""
        match event:
            case ExperimentStarted():
                self._begin()
                if EXPERIMENTS[experiment].requires in self._not_done:
                    self._not_done.add(experiment)  # it ends at once, for the same reason
                    return
                self._started[experiment] = self._now()
                self._line(f"{experiment}: {EXPERIMENTS[experiment].sentence}{self._judges(experiment)}")
            case ExperimentEnded():
                if event.outcome != "done":
                    self._not_done.add(experiment)
                if experiment in self._started:
                    seconds = self._now() - self._started.pop(experiment)
                    reason = f": {printable(without_exits(event.reason, self._exits))}" if event.reason else ""
                    self._line(f"{experiment}: {event.outcome} after {seconds:.1f} s{reason}")
            case ProcessExited():
                self._exits.append(exit_text(event))  # the result has it
            case ReportReceived():
                self._reports += 1
            case _:
                pass

    def tick(self) -> None:
        """Shows the elapsed time, the time that is left, and what runs."""
        running = f"; running: {', '.join(self._started)}" if self._started else ""
        self._view.status(f"{self._elapsed()} {self._left()}{running}; {self._reports} health reports")

    def _begin(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            number = len({one for each in self._judged.values() for one in each})
            self._line(f"level {self._level}: {number} requirement{'s' if number != 1 else ''}, {self._left()}")

    def _left(self) -> str:
        left = self._planned - (self._now() - self._began)
        return f"about {left:.0f} s left" if left >= 1 else "more time than usual"

    def _elapsed(self) -> str:
        return f"{self._now() - self._began:6.1f} s "

    def _judges(self, experiment: str) -> str:
        found = self._judged.get(experiment, ())
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        return f" For {', '.join(found[:_SHOWN])}{more}." if found else ""

    def _line(self, text: str) -> None:
        self._view.line(f"{self._elapsed()} {text}")


def judged_by(settings: Settings, only: Sequence[str] = ()) -> Mapping[str, Sequence[str]]:
    """The requirements that a run judges by each experiment, in the order of the ledger."""
    found: dict[str, list[str]] = {}
    for one in requirements().values():
        if one.is_judged(settings.level, settings.subject) and (not only or one.id in only):
            checks = (check for check in CHECKS.values() if check.requirement == one.id)
            for name in {name for check in checks for name in check.experiments}:
                found.setdefault(name, []).append(one.id)
    return found
