"""Follows the gRPC connection of one plugin, and connects again after each end (W-21)."""

import asyncio
from collections.abc import Callable

import grpc
import grpc.aio

from drahealth.manager.tasks import spawn


class ConnectionWatch:
    """Calls `changed()` when `connected` has changed, from `start` to `close`."""

    def __init__(self, channel: grpc.aio.Channel, name: str, changed: Callable[[], None]) -> None:
        self.connected = False
        self._channel = channel
        self._name = name
        self._changed = changed
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Connects, and follows the connection."""
        self._task = spawn(self._follow(), f"connection of {self._name}")

    async def close(self) -> None:
        """Ends without a call of `changed`; call it before the channel is closed."""
        if self._task:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _follow(self) -> None:
        while True:
            state = self._channel.get_state(try_to_connect=True)
            self._set(state is grpc.ChannelConnectivity.READY)
            await self._channel.wait_for_state_change(state)

    def _set(self, connected: bool) -> None:
        if connected != self.connected:
            self.connected = connected
            self._changed()
