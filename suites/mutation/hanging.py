"""When a trial hangs: it waits for too long without computing, or computes for too long. Pure.

Real time alone does not tell: on a loaded machine a trial that survives can take minutes.
"""

from dataclasses import dataclass

MOST_COMPUTING = 120.0
"""Seconds of a processor. A trial with all scenarios needs about 15."""
MOST_WAITING = 90.0
"""Real seconds without two seconds of computing. The longest wait of a scenario is 30 s."""
_STEP = 2.0
"""A trial that only waits still computes a little, because some tasks look around every second."""


@dataclass(slots=True)
class Patience:
    """Follows one trial: its processor time, and when it last had another two seconds of it."""

    computed: float = 0.0
    grew: float = 0.0

    def ends(self, computed: float, now: float) -> bool:
        """Whether the trial hangs: after `computed` seconds of a processor, at `now` seconds since its start."""
        if computed >= self.computed + _STEP:
            self.computed, self.grew = computed, now
        return computed > MOST_COMPUTING or now - self.grew > MOST_WAITING
