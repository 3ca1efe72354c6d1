"""The wait before the next attempt. Pure: the time is an argument."""

import math


class Retry:
    """Seconds between attempts of an operation that should succeed soon: they double up to a limit."""

    def __init__(self, first: float = 0.1, limit: float = 10.0) -> None:
        self._first = first
        self._limit = limit
        self._next = first

    def next(self) -> float:
        """Seconds until the next attempt."""
        seconds, self._next = self._next, min(self._next * 2, self._limit)
        return seconds

    def reset(self) -> None:
        """Starts from the beginning after a success."""
        self._next = self._first


class CrashLoop:
    """The time at which an exited container can start again, as in a kubelet.

    The first restart is immediate, the next ones follow 10 s after the exit, doubling to 300 s. A container that ran
    for more than 600 s since its last restart starts over. All times are Unix seconds.
    """

    FIRST = 10.0
    LIMIT = 300.0
    FORGIVEN_AFTER = 600.0

    def __init__(self) -> None:
        self.delay = 0.0
        """Seconds between an exit and the restart; 0: at once."""
        self._restarted = -math.inf

    def left(self, exited: float, now: float) -> float:
        """Seconds until a container that exited then can start again; 0 or less: now."""
        return 0.0 if self._is_forgiven(exited) else exited + self.delay - now

    def restart(self, exited: float, now: float) -> None:
        """Records a restart of a container that exited then."""
        grown = min(self.delay * 2, self.LIMIT) if self.delay else self.FIRST
        self.delay = self.FIRST if self._is_forgiven(exited) else grown
        self._restarted = now

    def _is_forgiven(self, exited: float) -> bool:
        return exited - self._restarted > self.FORGIVEN_AFTER
