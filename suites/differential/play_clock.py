"""The clock of a play, and the times to wait for conditions without an event.

A script is played on the real kubelet first. The play on the reference then follows its times: before each moment, the
simulated clock jumps to the time at which the kubelet reached it. So the same timeouts have passed on both sides.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from drahealth.suites.targets.target import Target


@dataclass(frozen=True, slots=True)
class WaitTimes:
    """Times for what no event reports, in real seconds, for a loaded machine with two cores."""

    receipt: float
    """From a driver's message until the kubelet has processed it."""
    each: float
    """Added to `receipt` for each device in the message. The reference reports its receipts (`receipts`)."""
    rounds: int
    """Number of changes of the fence pod.

    A kubelet syncs a pod again only after it has inspected the containers, which it does every second. The second
    change of the fence pod comes after such an inspection, and so after all changes that waited for it.
    """
    settle: float
    """From the status of the fence pod to the statuses of other pods that the kubelet processed before."""
    stuck: float
    """From a requested sync to its status. After that, a change of the fence pod shows whether it was rejected."""
    reopened: float
    """From the retry until a stream is open again."""
    restarted: float
    """From a restart of the kubelet until all streams are open."""
    started: float
    """Until a pod runs, if the API server accepts its status."""
    gone: float
    """Until a deleted pod is gone."""


REAL = WaitTimes(
    receipt=0.15,
    each=0.0001,
    rounds=2,
    settle=0.3,
    stuck=3.0,
    reopened=3.0,
    restarted=20.0,
    started=30.0,
    gone=12.0,
)
REFERENCE = WaitTimes(
    receipt=0.1, each=0.0, rounds=2, settle=0.1, stuck=2.0, reopened=1.5, restarted=20.0, started=5.0, gone=5.0
)


class PlayClock:
    """The clock of a play. `follow` has the times of another play, by mark; None keeps its own time."""

    def __init__(self, target: Target, follow: Mapping[str, float] | None = None) -> None:
        self.times: dict[str, float] = {}
        self._target = target
        self._follow = follow
        self._begin = time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since the start of the play, on the node's clock."""
        return time.monotonic() - self._begin

    async def mark(self, name: str) -> None:
        """Record the time of this mark. A following play waits until the other play's time first."""
        await self.reach(name)
        self.times[name] = self.elapsed

    async def reach(self, name: str) -> None:
        """In a following play, wait until the other play's time of this mark. Otherwise do nothing."""
        if self._follow is not None and name in self._follow:
            await self.advance(self._follow[name] - self.elapsed)

    async def advance(self, seconds: float) -> None:
        """Advance the node's time by `seconds`."""
        if seconds > 0:
            self._begin -= await self._target.advance_time(seconds)

    async def pause(self, seconds: float) -> None:
        """Advance the time by `seconds`. A following play does so at its next mark."""
        if self._follow is None:
            await self.advance(seconds)
