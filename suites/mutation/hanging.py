"""When a trial hangs: a scenario computes for too long, or the trial waits for too long without computing. Pure.

Real time alone does not tell: on a loaded machine a trial that survives can take minutes. Its processor time hardly
depends on the load. A survivor passes its scenarios, so it computes about as much as the reference without a change.
So the limit of each scenario depends on the processor time that it needs on the reference.
"""

from dataclasses import dataclass

_STEP = 2.0
"""A trial that only waits still computes a little, because some tasks look around every second."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a trial."""

    times: float = 4.0
    """A survivor may compute more than the reference, for example if it retries without a pause."""
    more: float = 10.0
    """Seconds of a processor in addition. They are for scenarios that fail, because most need only 0.1 s to pass."""
    waiting: float = 45.0
    """Real seconds without two seconds of computing. A scenario fails if it waits for 30 s (`RECEIPT_LIMIT`)."""

    def computing(self, needed: float) -> float:
        """The most processor time of a scenario, or of the imports, that needs this time on the reference."""
        return self.times * needed + self.more


LIMITS = Limits()
"""The limits of a run."""


@dataclass(slots=True)
class Patience:
    """Follows one trial: its processor time, and when it last had another two seconds of it."""

    waiting: float
    """The limit."""
    computed: float = 0.0
    grew: float = 0.0

    def ends(self, computed: float, now: float) -> bool:
        """Whether the trial only waits: after `computed` seconds of a processor, at `now` seconds since its start."""
        if computed >= self.computed + _STEP:
            self.computed, self.grew = computed, now
        return now - self.grew > self.waiting
