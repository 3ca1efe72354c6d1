"""One open health stream, from its driver's side: what is put in goes out in turn, if nothing is wrong with it."""

import asyncio
import math
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

import grpc

from drahealth.fakes.hardware.stream_faults import Pipe, StreamFaults
from drahealth.proto.clock import Clock

Message = TypeVar("Message")


class Outlet(Generic[Message]):
    """A queue of messages behind the driver's stream faults. `end` is what the stream ended with, once it has."""

    def __init__(self, faults: StreamFaults, clock: Clock, number: int) -> None:
        self.end: grpc.StatusCode | None = None
        self._pipe = Pipe[Message](faults, number)
        self._clock = clock
        self._woken = asyncio.Event()

    def put(self, message: Message) -> None:
        """It goes out as soon as it can."""
        if self.end is None:
            self._pipe.put(message, self._clock.now())
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
            for message in self._pipe.take(self._clock.now()):
                yield message
            if self._woken.is_set():
                continue
            if self.end is not None:
                return
            await self._something()

    async def _something(self) -> None:
        """Returns when a message was put in, something has changed, or the next message is due."""
        due = self._pipe.due
        if math.isinf(due):
            await self._woken.wait()
            return
        tasks = [
            asyncio.create_task(self._woken.wait()),
            asyncio.create_task(self._clock.sleep(due - self._clock.now())),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
