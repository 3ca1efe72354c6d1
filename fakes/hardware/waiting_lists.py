"""Lists on their way to one kubelet, which may read more slowly than devices change."""

import asyncio
from collections import deque

from drahealth.fakes.hardware.plugin_list import Response

MOST = 100
"""Lists that wait; each has all devices, so of more the oldest are left out."""


class WaitingLists:
    """The newest of them, in their order."""

    def __init__(self, *first: Response) -> None:
        self._lists = deque(first, maxlen=MOST)
        self._put = asyncio.Event()

    def put(self, response: Response) -> None:
        """It is told after those that wait."""
        self._lists.append(response)
        self._put.set()

    async def take(self) -> Response:
        """The next one, once there is one."""
        while not self._lists:
            self._put.clear()
            await self._put.wait()
        return self._lists.popleft()
