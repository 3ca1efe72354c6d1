"""One open health stream, from its driver's side: what is put in goes out in turn, if nothing is wrong with it.

A listener that is slower than the changes does not get ever older news: while a message is on its way, a complete list
takes the place of the one that waits. What is no complete list waits its turn, each of it, and so does what a stream
fault has touched: what was stalled, what goes out twice or out of turn is there to be seen.
"""

import asyncio
import math
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from itertools import count
from typing import Generic, TypeVar

import grpc

from drahealth.fakes.hardware.stream_faults import Due, Pipe, StreamFaults
from drahealth.fakes.waiting import first_of
from drahealth.proto.clock import Clock

Message = TypeVar("Message")


class Outlet(Generic[Message]):
    """A queue of messages behind the driver's stream faults. `end` is what the stream ended with, once it has.

    `coalesces` says of a message whether it is one that the next such message may take the place of.
    """

    def __init__(
        self, faults: StreamFaults, clock: Clock, number: int, coalesces: Callable[[Message], bool] = lambda _: False
    ) -> None:
        self.end: grpc.StatusCode | None = None
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
        """It goes out as soon as it can."""
        if self.end is None:
            self._pipe.put(message, self._clock.now())
            if self._busy:
                self._gather()
            self._woken.set()

    def close(self, code: grpc.StatusCode) -> None:
        """The stream ends with this, after what can go out by now."""
        self.end = self.end or code
        self._woken.set()

    def changed(self) -> None:
        """What is wrong with the driver's streams is something else now."""
        self._woken.set()

    async def messages(self) -> AsyncIterator[Message]:
        """What goes out, until the stream ends."""
        while True:
            self._woken.clear()
            for found in self._pipe.take(self._clock.now()):
                self._line_up(found)
            while self._ready:
                number, message = self._ready.popitem(last=False)
                self._replaceable.discard(number)
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
        """Takes what has become due while a message was on its way."""
        for found in self._pipe.take(self._clock.now()):
            if found.plain and self._coalesces(found.message):
                for older in self._replaceable:
                    del self._ready[older]
                self._replaceable.clear()
            self._line_up(found)

    def _line_up(self, due: Due[Message]) -> None:
        number = next(self._numbers)
        self._ready[number] = due.message
        if due.plain and self._coalesces(due.message):
            self._replaceable.add(number)

    async def _something(self) -> None:
        """Returns when a message was put in, something has changed, or the next message is due."""
        due = self._pipe.due
        if math.isinf(due):
            await self._woken.wait()
            return
        await first_of(self._woken.wait(), self._clock.sleep(due - self._clock.now()))
