"""A run distributed over processes (pytest-xdist) whose workers share an environment, such as one cluster.

The controller runs no scenario. It makes the environment once a worker has collected scenarios, and before any runs.
"""

import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.definition import SharedEnvironment
from drahealth.suites.targets.shared_file import SharedFile

_FILE = "drahealth_shared"


def shared_file(config: pytest.Config) -> SharedFile | None:
    """In a worker whose controller makes the environment: the file that describes it. Elsewhere None."""
    received: dict[str, Any] = getattr(config, "workerinput", {})
    if _FILE not in received:
        return None
    return SharedFile(Path(received[_FILE]), int(received["workerid"].removeprefix("gw")))


def request(file: SharedFile) -> None:
    """Asks the controller for the environment: this worker has scenarios to run."""
    _requested(file).touch()


def _requested(file: SharedFile) -> Path:
    return file.path.with_name("requested")


class WorkerEnvironment:
    """The environment that workers share, as the controller handles it. `run` runs coroutines of `environment`."""

    def __init__(self, environment: SharedEnvironment, run: Callable[[Awaitable[Any]], Any]) -> None:
        self._environment = environment
        self._run = run
        self._folder = tempfile.TemporaryDirectory(prefix="drahealth-")
        self._file = SharedFile(Path(self._folder.name) / "shared.json")
        self._is_made = False

    def announce(self, workerinput: dict[str, Any]) -> None:
        """Tells a worker that is about to start where the description will be."""
        workerinput[_FILE] = str(self._file.path)

    def make(self) -> None:
        """Makes the environment if a worker has requested it, or writes why that failed. Only the first call does."""
        if self._is_made or not _requested(self._file).exists():
            return
        self._is_made = True
        try:
            self._file.write(self._run(self._environment.up()))
        except HarnessError as error:
            self._file.write(error)
        except Exception as error:
            self._file.write(HarnessError(f"The environment of the workers could not be made: {error!r}"))
            raise

    def close(self) -> None:
        """Takes it down."""
        try:
            if self._is_made:
                self._run(self._environment.down())
        finally:
            self._folder.cleanup()
