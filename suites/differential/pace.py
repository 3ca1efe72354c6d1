"""The time of a play: taken down as it goes, or kept to as another play has taken it down.

The real kubelet is played on first, at its own pace. The reference then follows: before each thing happens its clock
jumps to where the kubelet's was, so that what has timed out there has timed out here.
"""

import time
from collections.abc import Mapping

from drahealth.suites.targets.target import Target


class Pace:
    """`follow`: the times to keep to, by mark; None to take one's own time."""

    def __init__(self, target: Target, follow: Mapping[str, float] | None = None) -> None:
        self.times: dict[str, float] = {}
        self._target = target
        self._follow = follow
        self._begin = time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since the play began, by the node's clock."""
        return time.monotonic() - self._begin

    async def mark(self, name: str) -> None:
        """The moment has come; who follows comes to it no earlier than the one followed."""
        await self.reach(name)
        self.times[name] = self.elapsed

    async def reach(self, name: str) -> None:
        """Who follows waits for a moment that lies ahead; for others it comes when it comes."""
        if self._follow is not None and name in self._follow:
            await self.passes(self._follow[name] - self.elapsed)

    async def passes(self, seconds: float) -> None:
        """So much time passes for the node."""
        if seconds > 0:
            self._begin -= await self._target.advance_time(seconds)

    async def pause(self, seconds: float) -> None:
        """The same, for who keeps one's own time; who follows comes to it at the next mark."""
        if self._follow is None:
            await self.passes(seconds)
