"""Recoveries with a duration: the device's state does not change until the end. Pure: the time is an argument.

During a recovery no other recovery of the device can start, as with a GPU reset. Faults that are injected during a
recovery are not cleared by it.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from drahealth.fakes.faults.catalogue import Action
from drahealth.fakes.hardware.machine import Key, Machine, fault_text

Outcome = Literal["cleared", "claimed", "nothing"]


@dataclass(frozen=True, slots=True)
class StartedRecovery:
    """A started recovery: the faults it will clear, the remaining faults, and the seconds until its end."""

    cleared: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    takes: float = 0.0


class Recoveries:
    """The recoveries of one machine. Ranges of the catalogue are drawn from the seed."""

    def __init__(self, machine: Machine, seed: int = 0) -> None:
        self._machine = machine
        self._seed = seed
        self._drawn: Counter[Key] = Counter()
        self._running: dict[Key, tuple[float, Outcome]] = {}

    def begin(
        self,
        action: Action,
        devices: Sequence[str],
        now: float,
        *,
        takes: float | None = 0.0,
        fails: bool = False,
        claimed: bool = False,
    ) -> StartedRecovery:
        """Starts a recovery action on devices, or on all. `takes` is in seconds; None uses the catalogue's duration.

        Raises ValueError for a device that is already recovering.
        """
        there = self._machine.faults_on(*devices)
        if busy := [key for key in there if key in self._running]:
            left = max(self._running[key][0] for key in busy) - now
            raise ValueError(f"{busy[0][1]} is already recovering from {busy[0][0]}; wait {max(left, 0):.1f} s")
        cleared = [key for key in there if not fails and not claimed and self._machine.is_recovered(key, action)]
        longest = 0.0
        for key in there:
            seconds = self._draw(key) if takes is None else takes
            outcome: Outcome = "cleared" if key in cleared else "claimed" if claimed else "nothing"
            self._running[key] = (now + seconds, outcome)
            longest = max(longest, seconds)
        return StartedRecovery(
            tuple(map(fault_text, cleared)),
            tuple(fault_text(key) for key in there if key not in cleared),
            longest,
        )

    @property
    def due(self) -> float:
        """The end of the next recovery; infinite if there is none."""
        return min((due for due, _ in self._running.values()), default=math.inf)

    def finish(self, now: float) -> frozenset[str]:
        """Ends recoveries that are due; returns the paths of devices whose state changes."""
        over = {key: outcome for key, (due, outcome) in self._running.items() if due <= now}
        for key in over:
            del self._running[key]
        cleared = self._machine.cure([key for key, outcome in over.items() if outcome == "cleared"])
        return cleared | self._machine.claim([key for key, outcome in over.items() if outcome == "claimed"])

    def forget(self, key: Key) -> None:
        """Removes a fault that was cleared by other means."""
        self._running.pop(key, None)

    def forget_all(self) -> None:
        """Removes all recoveries."""
        self._running.clear()

    def _draw(self, key: Key) -> float:
        self._drawn[key] += 1
        return self._machine.fault(key).takes.draw(Random(f"{self._seed}/{key[0]}/{key[1]}/{self._drawn[key]}"))
