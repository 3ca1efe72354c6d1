"""Gives each event its time and its experiment, and passes it to the evidence and to listeners."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from drahealth.proto.clock import Clock
from drahealth.proto.events import Event, ExperimentEnded, ExperimentStarted
from drahealth.proto.events.checks import Outcome
from drahealth.suites.checking.evidence import EvidenceWriter
from drahealth.suites.checking.experiments.experiment import Process
from drahealth.suites.checking.experiments.plan import EXPERIMENTS

Listener = Callable[[str, Event], None]
"""Receives the name of the experiment and the event, without secrets."""

_current: ContextVar[str] = ContextVar("experiment")


class Recorder:
    """Records the events of a run."""

    def __init__(self, writer: EvidenceWriter, clock: Clock, listener: Listener) -> None:
        self._writer = writer
        self._clock = clock
        self._began = clock.now()
        self._listener = listener
        self._running: dict[str, None] = {}

    @contextmanager
    def experiment(self, name: str) -> Iterator[None]:
        """Events of this task belong to the experiment."""
        token = _current.set(name)
        self._running[name] = None
        try:
            yield
        finally:
            del self._running[name]
            _current.reset(token)

    def started(self, name: str) -> None:
        """Records the start of an experiment."""
        self.add(name, ExperimentStarted(EXPERIMENTS[name].process))

    def ended(self, name: str, outcome: Outcome, reason: str = "") -> None:
        """Records the end of an experiment."""
        self.add(name, ExperimentEnded(outcome, reason))

    def of_current(self, event: Event) -> None:
        """Records an event of the experiment of this task."""
        self.add(_current.get(), event)

    def of_process(self, process: Process, event: Event) -> None:
        """Records an event in each running experiment of a driver process."""
        for name in [name for name in self._running if EXPERIMENTS[name].process == process]:
            self.add(name, event)

    def add(self, name: str, event: Event) -> None:
        """Records an event of an experiment."""
        self._listener(name, self._writer.add(self._clock.now() - self._began, name, event))

    def hide(self, secret: str) -> None:
        """Keeps a secret out of all later records."""
        self._writer.hide(secret)
