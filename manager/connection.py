"""Follows the gRPC connection of one plugin, and connects again after each end (W-21)."""

import asyncio
from collections.abc import Callable

import grpc
import grpc.aio

from drahealth.manager.tasks import spawn


class ConnectionWatch:
    """Calls `changed()` when `connected` has changed, from `start` to `close`.

    The channel must have no calls: then its wait for the next state ends when it is closed. With calls, the wait ends
    some time after them, maybe in another event loop.
    """

    def __init__(self, channel: grpc.aio.Channel, name: str, changed: Callable[[], None]) -> None:
        self.connected = False
        self._channel = channel
        self._name = name
        self._changed = changed
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    def start(self) -> None:
        """Connects, and follows the connection."""
        self._task = spawn(self._follow(), f"connection of {self._name}")

    async def close(self) -> None:
        """Closes the channel, without a call of `changed`."""
        self._is_closed = True
        await self._channel.close()
        if self._task:
            await asyncio.wait([self._task])

    async def _follow(self) -> None:
        while not self._is_closed:
            state = self._channel.get_state(try_to_connect=True)
            self._set(state is grpc.ChannelConnectivity.READY)
            await self._channel.wait_for_state_change(state)

    def _set(self, connected: bool) -> None:
        if connected != self.connected:
            self.connected = connected
            self._changed()
