"""Fakes as async context managers: registered with a kubelet inside, removed afterwards."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, Self

from drahealth.fakes.cluster.api import ListWatch
from drahealth.fakes.control.replies import DriverState, PluginState
from drahealth.proto.clock import Clock

REGISTRATION_TIMEOUT = 30.0
"""Seconds to wait for the registration; a kubelet detects a new socket within one second."""


class FakeNode(Protocol):
    """The properties of a node that a fake needs: name, API client, clock, and directories of the kubelet."""

    @property
    def name(self) -> str:
        """The Node object's name."""

    @property
    def api(self) -> ListWatch:
        """A client of the API server."""

    @property
    def clock(self) -> Clock:
        """The clock of the node."""

    @property
    def registry_dir(self) -> Path:
        """The directory with registration sockets: `plugins_registry`."""

    @property
    def plugins_dir(self) -> Path:
        """The parent of the drivers' data directories: `plugins`."""

    @property
    def device_plugins_dir(self) -> Path:
        """The directory with the kubelet's socket for device plugins: `device-plugins`."""


class Registered(ABC):
    """A fake that is entered with `async with`: started and registered inside, retired afterwards."""

    async def __aenter__(self) -> Self:
        """Start it and wait until a kubelet has registered it. Raises TimeoutError after 30 s; then nothing is left."""
        try:
            await self.start()
            await self._until_registered()
        except BaseException:
            await self.retire()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.retire()

    async def _until_registered(self) -> None:
        try:
            async with asyncio.timeout(REGISTRATION_TIMEOUT):
                await self.wait_registered()
        except TimeoutError:
            error = (await self.state()).registration_error or "no kubelet called its registration socket"
            raise TimeoutError(f"{self} was not registered within {REGISTRATION_TIMEOUT:g} s: {error}") from None

    @abstractmethod
    async def start(self) -> None: ...

    @abstractmethod
    async def wait_registered(self) -> None: ...

    @abstractmethod
    async def retire(self) -> None: ...

    @abstractmethod
    async def state(self) -> DriverState | PluginState: ...


def names_of(devices: Sequence[str]) -> tuple[str, ...]:
    """Device names as a tuple. Raises ValueError for a single string."""
    if isinstance(devices, str):
        raise ValueError(f"devices must be a list of names such as [{devices!r}], got {devices!r}")
    return tuple(devices)
