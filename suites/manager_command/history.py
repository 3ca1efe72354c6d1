"""Writes the events of the manager to a history file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from drahealth.manager.profile import Profile
from drahealth.proto.clock import Clock
from drahealth.proto.events import IN_SHORT, Event, Record
from drahealth.proto.history import Header, HistoryWriter
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.manager_command.observers import Observers
from drahealth.suites.output_paths import check_output_file


def check_history_file(path: Path) -> None:
    """Raises ConfigurationError for a file that exists or cannot be written."""
    if path.exists():
        raise ConfigurationError(f"--history {path} already exists", "pass another file, or remove this file")
    check_output_file(str(path))


@contextmanager
def history_file(path: Path | None, profile: Profile, clock: Clock, observers: Observers) -> Iterator[None]:
    """While it is entered, events go to the file; nothing without a file. Raises HarnessError.

    Reports are written in full, so their short forms are left out.
    """
    if path is None:
        yield
        return
    try:
        writer = HistoryWriter(path, Header.make(profile.name, clock))
    except OSError as error:
        raise HarnessError(f"--history {path} cannot be written: {error.strerror}") from error

    def record(event: Event) -> None:
        if not isinstance(event, IN_SHORT):
            writer.add(Record(clock.now(), event))

    observers.add(record)
    try:
        yield
    finally:
        writer.close()
