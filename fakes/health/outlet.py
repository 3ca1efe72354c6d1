"""One open health stream, on the driver's side: a queue of messages behind stream faults.

If the subscriber is slower than the changes, complete lists coalesce: a new list replaces the waiting one. All other
messages wait in order, and so do messages that a stream fault has affected.

At most `MESSAGES` messages wait, which list at most `DEVICES` devices. Beyond that, messages are dropped, and the
newest complete list takes the last place. So the subscriber always receives the last state.
"""

import asyncio
import logging
import math
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from itertools import count
from typing import Generic, TypeVar

import grpc

from drahealth.fakes.health.stream_faults import Due, Pipe, StreamFaults
from drahealth.fakes.waiting import first_of
from drahealth.proto.clock import Clock

Message = TypeVar("Message")

MESSAGES, DEVICES = 100_000, 10_000_000
"""How many messages may wait in a stream, and how many devices they may list together; such a line has about 100 MB."""

log = logging.getLogger(__name__)


class Outlet(Generic[Message]):
    """A queue of messages behind the driver's stream faults. `end` is the status with which the stream ended.

    `coalesces` tells whether a later message of this kind may replace a message, `size` is the number of devices in a
    message, and `newest` gives the current complete list. At `most` this many messages and devices wait.
    """

    def __init__(
        self,
        name: str,
        faults: StreamFaults,
        clock: Clock,
        number: int,
        newest: Callable[[], Message],
        *,
        coalesces: Callable[[Message], bool] = lambda _: False,
        size: Callable[[Message], int] = lambda _: 1,
        most: tuple[int, int] = (MESSAGES, DEVICES),
    ) -> None:
        self.end: grpc.StatusCode | None = None
        self.left_out = 0
        """Messages, so far, for which there was no place."""
        self._name = name
        self._newest = newest
        self._size = size
        self._most = most
        self._messages = self._devices = 0
        """What waits, in the pipe and ready."""
        self._pipe = Pipe[Message](faults, number)
        self._clock = clock
        self._coalesces = coalesces
        self._ready: OrderedDict[int, Message] = OrderedDict()
        self._replaceable: set[int] = set()
        """Those of them that a newer one takes the place of."""
        self._numbers = count()
        self._busy = False
        self._woken = asyncio.Event()

    def put(self, message: Message) -> None:
        """Adds a message, to be sent as soon as possible."""
        if self.end is None:
            if self._messages >= self._most[0] or self._devices + self._size(message) > self._most[1]:
                message = self._in_last_place()
            self._count(message, self._pipe.put(message, self._clock.now()))
            if self._busy:
                self._gather()
            self._woken.set()

    def close(self, code: grpc.StatusCode) -> None:
        """Ends the stream with this status, after the messages that are due."""
        self.end = self.end or code
        self._woken.set()

    def changed(self) -> None:
        """Applies changed stream faults."""
        self._woken.set()

    async def messages(self) -> AsyncIterator[Message]:
        """The messages to send, until the stream ends."""
        while True:
            self._woken.clear()
            for found in self._pipe.take(self._clock.now()):
                self._line_up(found)
            while self._ready:
                message = self._leaves(next(iter(self._ready)))
                self._busy = True
                yield message
                self._busy = False
                self._gather()
            if self._woken.is_set():
                continue
            if self.end is not None:
                return
            await self._something()

    def _gather(self) -> None:
        """Takes messages that became due while another message was being sent."""
        for found in self._pipe.take(self._clock.now()):
            if found.plain and self._coalesces(found.message):
                for older in tuple(self._replaceable):
                    self._leaves(older)
            self._line_up(found)

    def _line_up(self, due: Due[Message]) -> None:
        number = next(self._numbers)
        self._ready[number] = due.message
        if due.plain and self._coalesces(due.message):
            self._replaceable.add(number)

    def _leaves(self, number: int) -> Message:
        """The message with this number, removed from the queue."""
        message = self._ready.pop(number)
        self._replaceable.discard(number)
        self._count(message, -1)
        return message

    def _in_last_place(self) -> Message:
        """The newest list, in place of the last message, which is dropped."""
        if not self.left_out:
            log.warning(
                "stream %s: %d messages wait, which list %d devices: what would be more is left out, "
                "and the newest complete list says how it ended",
                *(self._name, self._messages, self._devices),
            )
        self.left_out += 1
        if (last := self._pipe.forget_last()) is not None:
            self._count(last, -1)
        elif self._ready:
            self._leaves(next(reversed(self._ready)))
        return self._newest()

    def _count(self, message: Message, times: int) -> None:
        self._messages += times
        self._devices += times * self._size(message)

    async def _something(self) -> None:
        """Returns when a message was added, something has changed, or the next message is due."""
        due = self._pipe.due
        if math.isinf(due):
            await self._woken.wait()
            return
        await first_of(self._woken.wait(), self._clock.sleep(due - self._clock.now()))
