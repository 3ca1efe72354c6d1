"""Faults of health streams: messages that arrive late, twice, not at all or out of order.

Pure: the time is an argument, and random draws come from a seed. `StreamFaults` holds the faults of a driver's streams.
A `Pipe` is one stream: messages enter, and leave when they are due.
"""

import math
from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import Generic, Literal, TypeVar, get_args

Message = TypeVar("Message")

Kind = Literal["stall", "delay", "drop", "duplicate", "reorder"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""stall: hold all messages until the fault is cleared · delay: send each message so many seconds later ·
drop, duplicate, reorder: lose, repeat, or swap with its successor this share of the messages (0 to 1)."""


@dataclass
class StreamFaults:
    """The current faults. The same seed and messages give the same draws."""

    seed: int = 0
    values: dict[str, float] = field(default_factory=dict)

    def set(self, kind: str, value: float = 1.0) -> None:
        """Sets a fault. Raises ValueError for an unknown kind, a share above 1 or a negative delay."""
        if kind not in KINDS:
            raise ValueError(f"unknown stream fault {kind!r}; valid: {', '.join(KINDS)}")
        is_share = kind in ("drop", "duplicate", "reorder")
        if not 0 <= value < math.inf or (is_share and value > 1):
            expected = "a share between 0 and 1" if is_share else "a finite number, at least 0"
            raise ValueError(f"{kind} must be {expected}, got {value:g}")
        self.values[kind] = value

    def clear(self, kind: str) -> None:
        """Clears a fault; does nothing if it is not set."""
        self.values.pop(kind, None)

    def __getitem__(self, kind: Kind) -> float:
        return self.values.get(kind, 0.0)


@dataclass(frozen=True, slots=True)
class Due(Generic[Message]):
    """A message that is due."""

    message: Message
    plain: bool
    """No fault changed it, except by a delay."""


class Pipe(Generic[Message]):
    """One stream. `put` messages, `take` those that are due, and call again at `due`."""

    def __init__(self, faults: StreamFaults, number: int = 0) -> None:
        self._faults = faults
        self._random = Random(f"{faults.seed}/{number}")
        self._waiting: deque[tuple[float, Due[Message]]] = deque()
        self._swapped: Message | None = None

    def put(self, message: Message, now: float) -> int:
        """Adds a message; returns how often it will leave the pipe.

        The draws for a message do not depend on the current faults.
        """
        drop, twice, swap = (self._random.random() for _ in range(3))
        if drop < self._faults["drop"]:
            return 0
        when = now + self._faults["delay"]
        copies = 2 if twice < self._faults["duplicate"] else 1
        if self._swapped is None and swap < self._faults["reorder"] and copies == 1:
            self._swapped = message
            return 1
        plain = copies == 1 and self._swapped is None and not self._faults["stall"]
        self._waiting.extend([(when, Due(message, plain))] * copies)
        if self._swapped is not None:
            self._waiting.append((when, Due(self._swapped, plain=False)))
            self._swapped = None
        return copies

    def forget_last(self) -> Message | None:
        """Removes and returns the last waiting message; None if no message waits."""
        return self._waiting.pop()[1].message if self._waiting else None

    def take(self, now: float) -> list[Due[Message]]:
        """Removes and returns the due messages, in order. A message never overtakes an earlier delayed one."""
        if self._faults["stall"]:
            return []
        out = []
        while self._waiting and self._waiting[0][0] <= now:
            out.append(self._waiting.popleft()[1])
        if self._swapped is not None and not self._faults["reorder"] and not self._waiting:
            out.append(Due(self._swapped, plain=False))  # the reorder fault is cleared
            self._swapped = None
        return out

    @property
    def due(self) -> float:
        """Time at which the next message is due; infinite if there is none."""
        return self._waiting[0][0] if self._waiting and not self._faults["stall"] else math.inf
