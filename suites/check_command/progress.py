"""The progress of a run on standard error: one line for each experiment, at its start and its end."""

import time
from collections.abc import Callable

from drahealth.proto.events import Event, ExperimentEnded, ExperimentStarted, ReportReceived
from drahealth.proto.quoting import printable
from drahealth.suites.checking.experiments.plan import EXPERIMENTS

LONG = 10.0
"""Seconds after which a running experiment with reports gets another line."""


class Progress:
    """A listener of a run."""

    def __init__(self, write: Callable[[str], None], now: Callable[[], float] = time.monotonic) -> None:
        self._write = write
        self._now = now
        self._began = now()
        self._started: dict[str, float] = {}
        self._spoke = self._began
        self._reports = 0

    def __call__(self, experiment: str, event: Event) -> None:
        """Shows an event of an experiment."""
        match event:
            case ExperimentStarted():
                self._started[experiment] = self._now()
                self._line(f"{experiment}: {EXPERIMENTS[experiment].sentence}")
            case ExperimentEnded():
                if experiment in self._started:
                    seconds = self._now() - self._started.pop(experiment)
                    reason = f": {printable(event.reason)}" if event.reason else ""
                    self._line(f"{experiment}: {event.outcome} after {seconds:.1f} s{reason}")
            case ReportReceived():
                self._reports += 1
                if self._now() - self._spoke >= LONG:
                    running = ", ".join(self._started)
                    self._line(f"{self._reports} health reports so far; running: {running}")
            case _:
                pass

    def _line(self, text: str) -> None:
        self._spoke = self._now()
        self._write(f"{self._now() - self._began:6.1f} s  {text}")
