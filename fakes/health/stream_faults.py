"""Faults between a driver and its subscribers: messages that are late, duplicated, lost or out of order.

Pure: the time is an argument, and random draws come from a seed. `StreamFaults` has the current faults of a driver's
streams. A `Pipe` is one stream: messages go in, and come out when they are due.
"""

import math
from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import Generic, Literal, TypeVar, get_args

Message = TypeVar("Message")

Kind = Literal["stall", "delay", "drop", "duplicate", "reorder"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""stall: nothing goes out until it is over, then all of it does · delay: each message goes out so many seconds later ·
drop, duplicate, reorder: this share of the messages is lost, goes out twice, or changes places with the next one."""


@dataclass
class StreamFaults:
    """The current faults. The same seed and messages give the same draws."""

    seed: int = 0
    values: dict[str, float] = field(default_factory=dict)

    def set(self, kind: str, value: float = 1.0) -> None:
        """Adds a fault. Raises ValueError for an unknown kind, a share above 1, or a negative delay."""
        if kind not in KINDS:
            raise ValueError(f"streams have no fault {kind!r}; there are {', '.join(KINDS)}")
        if not 0 <= value < math.inf or (kind in ("drop", "duplicate", "reorder") and value > 1):
            raise ValueError(f"{kind} {value:g} makes no sense; a share is at most 1, a delay a number of seconds")
        self.values[kind] = value

    def restore(self, kind: str) -> None:
        """Removes a fault, if it is set."""
        self.values.pop(kind, None)

    def __getitem__(self, kind: Kind) -> float:
        return self.values.get(kind, 0.0)


@dataclass(frozen=True, slots=True)
class Due(Generic[Message]):
    """A message that is due."""

    message: Message
    plain: bool
    """No fault has had a hand in it but for making it late."""


class Pipe(Generic[Message]):
    """One stream. `put` adds a message, `take` returns messages that are due, `due` is the time of the next one."""

    def __init__(self, faults: StreamFaults, number: int = 0) -> None:
        self._faults = faults
        self._random = Random(f"{faults.seed}/{number}")
        self._waiting: deque[tuple[float, Due[Message]]] = deque()
        self._swapped: Message | None = None

    def put(self, message: Message, now: float) -> int:
        """Adds a message; returns how often it will be sent.

        The random draws of a message do not depend on the current faults.
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
        """Drops the last waiting message and returns it; None if no message waits."""
        return self._waiting.pop()[1].message if self._waiting else None

    def take(self, now: float) -> list[Due[Message]]:
        """The messages that are due, in order: a message never overtakes an earlier delayed one."""
        if self._faults["stall"]:
            return []
        out = []
        while self._waiting and self._waiting[0][0] <= now:
            out.append(self._waiting.popleft()[1])
        if self._swapped is not None and not self._faults["reorder"] and not self._waiting:
            out.append(Due(self._swapped, plain=False))  # nothing changes places any more
            self._swapped = None
        return out

    @property
    def due(self) -> float:
        """When the next message is due; infinite if there is none."""
        return self._waiting[0][0] if self._waiting and not self._faults["stall"] else math.inf
