"""What goes wrong between a driver and who listens to it: messages that come late, twice, not at all or out of turn.

Pure: the time is an argument, and what is drawn comes from a seed. `StreamFaults` is what is wrong with a driver's
streams, a `Pipe` is one of them: messages go in, and come out when they are due.
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
    """What is wrong now. The same seed and the same messages give the same faults."""

    seed: int = 0
    values: dict[str, float] = field(default_factory=dict)

    def set(self, kind: str, value: float = 1.0) -> None:
        """From now on. Raises ValueError for what there is not: another kind, a share above 1, a negative delay."""
        if kind not in KINDS:
            raise ValueError(f"streams have no fault {kind!r}; there are {', '.join(KINDS)}")
        if not 0 <= value < math.inf or (kind in ("drop", "duplicate", "reorder") and value > 1):
            raise ValueError(f"{kind} {value:g} makes no sense; a share is at most 1, a delay a number of seconds")
        self.values[kind] = value

    def restore(self, kind: str) -> None:
        """It is as it was before; nothing for what was not wrong."""
        self.values.pop(kind, None)

    def __getitem__(self, kind: Kind) -> float:
        return self.values.get(kind, 0.0)


@dataclass(frozen=True, slots=True)
class Due(Generic[Message]):
    """A message that goes out now."""

    message: Message
    plain: bool
    """No fault has had a hand in it but for making it late."""


class Pipe(Generic[Message]):
    """One stream. `put` what is to be said, `take` what goes out now, and come again at `due`."""

    def __init__(self, faults: StreamFaults, number: int = 0) -> None:
        self._faults = faults
        self._random = Random(f"{faults.seed}/{number}")
        self._waiting: deque[tuple[float, Due[Message]]] = deque()
        self._swapped: Message | None = None

    def put(self, message: Message, now: float) -> int:
        """It is to be said; how often it will be.

        What is drawn for a message does not depend on which faults there are.
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
        """The last of those that wait is not said; None where none does."""
        return self._waiting.pop()[1].message if self._waiting else None

    def take(self, now: float) -> list[Due[Message]]:
        """What goes out now, in its order: a message never overtakes one that was delayed before it."""
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
        """When the next message goes out if nothing changes; infinite if there is none."""
        return self._waiting[0][0] if self._waiting and not self._faults["stall"] else math.inf
