"""A run distributed over processes (pytest-xdist) on one kind cluster: one process makes it, the workers share it.

The controller, which plays no scenario, makes the cluster once a worker has collected some, and before any is played.
"""

import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.kind.cluster import site
from drahealth.suites.targets.kind.cluster.site_maker import SiteMaker
from drahealth.suites.targets.make import Shared

_SITE = "drahealth_site"


def shared(config: pytest.Config) -> Shared | None:
    """What this process was told, if it is a worker whose controller makes the site."""
    told: dict[str, Any] = getattr(config, "workerinput", {})
    if _SITE not in told:
        return None
    return Shared(Path(told[_SITE]), int(told["workerid"].removeprefix("gw")))


def want(cluster: Shared) -> None:
    """Tells the controller that a worker has scenarios to play."""
    _wanted(cluster.site).touch()


def _wanted(file: Path) -> Path:
    return file.with_name("wanted")


class SharedCluster:
    """The controller's side."""

    def __init__(self, maker: SiteMaker, run: Callable[[Awaitable[Any]], Any]) -> None:
        self._maker = maker
        self._run = run
        self._folder = tempfile.TemporaryDirectory(prefix="drahealth-")
        self._file = Path(self._folder.name) / "site.json"
        self._is_made = False

    def tell(self, workerinput: dict[str, Any]) -> None:
        """Tells a worker that is about to start where it will hear of the site."""
        workerinput[_SITE] = str(self._file)

    def make(self) -> None:
        """Makes it if a worker wants it, or says why not; doing so again is nothing."""
        if self._is_made or not _wanted(self._file).exists():
            return
        self._is_made = True
        try:
            site.write(self._file, self._run(self._maker.up()))
        except HarnessError as error:
            site.write(self._file, error)
        except Exception as error:
            site.write(self._file, HarnessError(f"The cluster could not be made: {error!r}"))
            raise

    def close(self) -> None:
        """Takes it down again."""
        try:
            if self._is_made:
                self._run(self._maker.down())
        finally:
            self._folder.cleanup()
