"""The queue of one open health stream, on the driver's side. Messages leave in order, unless a stream fault applies.

A slow client does not receive outdated reports: while a message is being sent, a new complete report replaces the
queued one. Partial reports, and messages that a stream fault changed (stalled, duplicated, reordered), all stay queued.

A queue holds at most `MAX_MESSAGES` messages, with `MAX_DEVICES` devices together. A message beyond that is dropped,
and the newest complete report replaces the last queued message. So a slow client still receives the last state.
"""

import asyncio
import logging
import math
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from itertools import count
from typing import Generic, TypeVar

import grpc

from drahealth.fakes.kubelet_plugin.health_streams.stream_faults import Due, Pipe, StreamFaults
from drahealth.fakes.waiting import first_of
from drahealth.proto.clock import Clock

Message = TypeVar("Message")

MAX_MESSAGES, MAX_DEVICES = 100_000, 10_000_000
"""Limits of a stream's queue: messages, and devices in all messages. A full queue takes about 100 MB."""

log = logging.getLogger(__name__)


class StreamQueue(Generic[Message]):
    """A queue of messages, subject to the driver's stream faults. `end`: the code the stream ended with, or None.

    `coalesces(message)`: whether the next such message may replace this one. `size(message)`: devices it lists.
    `newest()`: the complete report of the current state. `limits`: messages and devices in the queue.
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
        limits: tuple[int, int] = (MAX_MESSAGES, MAX_DEVICES),
    ) -> None:
        self.end: grpc.StatusCode | None = None
        self.dropped = 0
        """Number of messages dropped because the queue was full."""
        self._name = name
        self._newest = newest
        self._size = size
        self._limits = limits
        self._messages = self._devices = 0
        """Messages and devices in the queue, in the pipe and ready."""
        self._pipe = Pipe[Message](faults, number)
        self._clock = clock
        self._coalesces = coalesces
        self._ready: OrderedDict[int, Message] = OrderedDict()
        self._replaceable: set[int] = set()
        """Numbers of the ready messages that a newer one may replace."""
        self._numbers = count()
        self._sending = False
        self._woken = asyncio.Event()

    def put(self, message: Message) -> None:
        """Queues a message."""
        if self.end is None:
            if self._messages >= self._limits[0] or self._devices + self._size(message) > self._limits[1]:
                message = self._drop_last()
            self._count(message, self._pipe.put(message, self._clock.now()))
            if self._sending:
                self._gather()
            self._woken.set()

    def close(self, code: grpc.StatusCode) -> None:
        """Ends the stream with this code, after all messages that are due."""
        self.end = self.end or code
        self._woken.set()

    def faults_changed(self) -> None:
        """The driver's stream faults have changed: check again which messages are due."""
        self._woken.set()

    async def messages(self) -> AsyncIterator[Message]:
        """The messages to send, until the stream ends."""
        while True:
            self._woken.clear()
            for found in self._pipe.take(self._clock.now()):
                self._enqueue(found)
            while self._ready:
                message = self._remove(next(iter(self._ready)))
                self._sending = True
                yield message
                self._sending = False
                self._gather()
            if self._woken.is_set():
                continue
            if self.end is not None:
                return
            await self._wait()

    def _gather(self) -> None:
        """Queues messages that became due while a message was being sent."""
        for found in self._pipe.take(self._clock.now()):
            if found.plain and self._coalesces(found.message):
                for older in tuple(self._replaceable):
                    self._remove(older)
            self._enqueue(found)

    def _enqueue(self, due: Due[Message]) -> None:
        number = next(self._numbers)
        self._ready[number] = due.message
        if due.plain and self._coalesces(due.message):
            self._replaceable.add(number)

    def _remove(self, number: int) -> Message:
        """Removes a message from the queue and returns it."""
        message = self._ready.pop(number)
        self._replaceable.discard(number)
        self._count(message, -1)
        return message

    def _drop_last(self) -> Message:
        """Drops the last queued message; returns the newest complete report, which replaces it."""
        if not self.dropped:
            log.warning(
                "stream %s: the queue is full (%d messages, %d devices); further messages are dropped "
                "and replaced by the newest complete report",
                *(self._name, self._messages, self._devices),
            )
        self.dropped += 1
        if (last := self._pipe.forget_last()) is not None:
            self._count(last, -1)
        elif self._ready:
            self._remove(next(reversed(self._ready)))
        return self._newest()

    def _count(self, message: Message, times: int) -> None:
        self._messages += times
        self._devices += times * self._size(message)

    async def _wait(self) -> None:
        """Waits until a message is queued, stream faults change, or the next message is due."""
        due = self._pipe.due
        if math.isinf(due):
            await self._woken.wait()
            return
        await first_of(self._woken.wait(), self._clock.sleep(due - self._clock.now()))
