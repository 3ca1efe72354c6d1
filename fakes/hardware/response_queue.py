"""The queue of ListAndWatch responses to one kubelet, which can read more slowly than devices change."""

import asyncio
from collections import deque

from drahealth.fakes.hardware.plugin_list import Response

MAX_RESPONSES = 100
"""Queued responses; each lists all devices, so the oldest are dropped first."""


class ResponseQueue:
    """The newest responses, in order, until the end of the stream."""

    def __init__(self, *first: Response) -> None:
        self._responses = deque(first, maxlen=MAX_RESPONSES)
        self._put = asyncio.Event()
        self._is_ended = False

    def put(self, response: Response) -> None:
        """Queues a response."""
        self._responses.append(response)
        self._put.set()

    def end(self) -> None:
        """Ends the stream after the queued responses."""
        self._is_ended = True
        self._put.set()

    async def take(self) -> Response | None:
        """Waits for the next response, and removes it. None at the end of the stream."""
        while not self._responses:
            if self._is_ended:
                return None
            self._put.clear()
            await self._put.wait()
        return self._responses.popleft()
