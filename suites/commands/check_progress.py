"""The progress of a check, on a terminal or as plain lines."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.text import Text

from drahealth.proto.events import Event, ExperimentEnded, ExperimentStarted, ProcessExited, ReportReceived
from drahealth.proto.quoting import printable
from drahealth.suites.driver_checks.all_checks import CHECKS
from drahealth.suites.driver_checks.driver_run import DriverRun, duration
from drahealth.suites.driver_checks.experiments import EXPERIMENTS
from drahealth.suites.driver_checks.output_text import exit_text, without_exits
from drahealth.suites.driver_checks.verdicts import requirements

# The progress of a run: a line for each experiment at its start and its end, and the time that is left.

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

    def __init__(self, run: DriverRun, view: View, only: Sequence[str] = (), now: Clock = time.monotonic) -> None:
        """`only` are the IDs of the requirements that are judged; empty for all of the level."""
        self._view = view
        self._now = now
        self._began = now()
        self._planned = duration(run)
        self._judged = judged_by(run, only)
        self._started: dict[str, float] = {}
        self._not_done: set[str] = set()
        self._exits: list[str] = []
        self._reports = 0
        self._level = run.level
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


def judged_by(run: DriverRun, only: Sequence[str] = ()) -> Mapping[str, Sequence[str]]:
    """The requirements that a run judges by each experiment, in the order of the ledger."""
    found: dict[str, list[str]] = {}
    for one in requirements().values():
        if one.is_judged(run.level, run.profile.subject) and (not only or one.id in only):
            checks = (check for check in CHECKS.values() if check.requirement == one.id)
            for name in {name for check in checks for name in check.experiments}:
                found.setdefault(name, []).append(one.id)
    return found


# Where progress is shown: a terminal with a status line at its end, or plain lines.

_TICK = 1.0
_PAUSE = 10
"""Ticks without a line after which plain lines have the state."""


class TerminalView:
    """Lines, and a status line below them that changes."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def line(self, text: str) -> None:
        """Prints a line, folded at words, above the status."""
        self._live.console.print(Text(text), highlight=False)

    def status(self, text: str) -> None:
        """Replaces the status, which is cut at the width of the terminal."""
        self._live.update(Text(text, style="bold", no_wrap=True, overflow="ellipsis"), refresh=True)


class PlainView:
    """Lines without colors, each at once."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._ticks = 0

    def line(self, text: str) -> None:
        """Writes a line."""
        self._ticks = 0
        self._write(text)

    def status(self, text: str) -> None:
        """Writes the state, if there was no line for a while."""
        self._ticks += 1
        if self._ticks >= _PAUSE:
            self.line(text)


@contextmanager
def view_on(console: Console) -> Iterator[View]:
    """The view for this console. The status disappears at the end."""
    if not console.file.isatty() or console.is_dumb_terminal:
        yield PlainView(lambda line: print(line, file=console.file, flush=True))
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield TerminalView(live)


@asynccontextmanager
async def ticking(tick: Callable[[], None]) -> AsyncIterator[None]:
    """Calls `tick` once a second."""

    async def always() -> None:
        while True:
            await asyncio.sleep(_TICK)
            tick()

    task = asyncio.create_task(always())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
