"""The gRPC connection of one plugin: waits for it, follows it, and connects again after each end (W-21)."""

import asyncio
from collections.abc import Callable

import grpc
import grpc.aio

from drahealth.manager.calls import spawn

INTERVAL = 0.1
"""Real seconds between two looks at a connection.

gRPC could announce changes. But a pending announcement outlives its event loop, and cannot be cancelled.
"""


_FAILING = 0.5
"""Real seconds of failed attempts. gRPC tries again within 0.3 s (`plugin._CHANNEL`), so at least one is new."""


async def reaches(channel: grpc.aio.Channel, limit: float) -> bool:
    """Waits for the connection, at most `limit` real seconds. Returns False earlier if attempts keep failing."""
    waited, failed, pause = 0.0, 0.0, 0.001
    while waited < limit and failed < _FAILING:
        state = channel.get_state(try_to_connect=True)
        if state is grpc.ChannelConnectivity.READY:
            return True
        await asyncio.sleep(pause)
        waited += pause
        failed += pause if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE else 0
        pause = min(2 * pause, INTERVAL)
    return False


class ConnectionWatch:
    """Calls `changed()` when `connected` has changed, from `start` to `stop`."""

    def __init__(self, channel: grpc.aio.Channel, name: str, changed: Callable[[], None]) -> None:
        self.connected = False
        self._channel = channel
        self._name = name
        self._changed = changed
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Connects, and follows the connection."""
        self._task = spawn(self._follow(), f"connection of {self._name}")

    def stop(self) -> None:
        """Ends, without a call of `changed`. The channel stays open."""
        if self._task:
            self._task.cancel()  # it ends in the next turn of the loop, also if the caller is cancelled

    async def _follow(self) -> None:
        while True:
            self._set(self._channel.get_state(try_to_connect=True) is grpc.ChannelConnectivity.READY)
            await asyncio.sleep(INTERVAL)

    def _set(self, connected: bool) -> None:
        if connected != self.connected:
            self.connected = connected
            self._changed()
