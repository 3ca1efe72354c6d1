"""What experiments need of fault adapters. `drahealth.suites.certifying.faults` has the adapters."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from drahealth.fakes.cluster.list_watch import ListWatch
from drahealth.proto.clock import Clock
from drahealth.suites.checking.faults import Action, Fault


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the adapters of a driver process work with."""

    clock: Clock
    api: ListWatch | None = None
    """A client of the driver's API server; None without one."""
    folder: Path | None = None
    """Where commands run, and relative paths start; None for the present folder."""
    entry: tuple[str, ...] = ()
    """Words before a command that run it in the driver's sandbox; empty without one."""
    outside: Callable[[Path], Path] = Path
    """Where a path that the driver names is outside of its sandbox."""


class ActionFailed(Exception):
    """An action of a fault adapter was not done; the message says why."""

    def __init__(self, problem: str, *, timed_out: bool = False) -> None:
        super().__init__(problem)
        self.timed_out = timed_out


class Adapters(Protocol):
    """The fault adapters of one driver process."""

    async def start(self, faults: Sequence[Fault], values: Mapping[str, str]) -> None:
        """Starts the scripted backends of the faults, with the values of placeholders. Raises ConfigurationError."""

    async def move(
        self,
        faults: Sequence[Fault],
        values: Mapping[str, str],
        api: ListWatch | None,
        outside: Callable[[Path], Path],
    ) -> None:
        """Starts the backends again for a driver that got other directories and another API server.

        Raises ConfigurationError.
        """

    async def perform(self, action: Action, values: Mapping[str, str], limit: float) -> None:
        """Does one action within `limit` seconds. Raises ActionFailed."""

    async def kill_backend(self, script: Path) -> None:
        """Kills a scripted backend."""

    async def restart_backend(self, script: Path) -> None:
        """Starts a killed backend again. Raises ActionFailed."""

    async def close(self) -> None:
        """Ends all backends."""


AdaptersOf = Callable[[Surroundings], Adapters]
"""Makes the adapters of a driver process."""
