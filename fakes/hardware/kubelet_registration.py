"""A device plugin's half of registration by the kubelet's socket: it calls, and calls again when a kubelet starts anew.

A kubelet that starts removes the sockets of all plugins from that directory (D-11).
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc.aio
from watchfiles import awatch

from drahealth.proto.device_plugin import KUBELET_SOCKET, REGISTER
from drahealth.proto.sockets import target

LIMIT = 10.0
"""Seconds that a kubelet has to answer a registration."""

_RESCAN = 500  # milliseconds after which the directory is looked at in any case

log = logging.getLogger(__name__)


class KubeletRegistration:
    """Registers with each kubelet socket that appears in a directory.

    `ready()` says whether the plugin can be reached, `told(ok, error)` takes what a kubelet has answered.
    """

    def __init__(
        self, folder: Path, request: Any, ready: Callable[[], Awaitable[bool]], told: Callable[[bool, str], None]
    ) -> None:
        self._kubelet = folder / KUBELET_SOCKET
        self._request = request
        self._ready = ready
        self._told = told

    async def keep(self) -> None:
        """Until cancelled."""
        known = None
        self._kubelet.parent.mkdir(parents=True, exist_ok=True)
        async for _ in _looks(self._kubelet.parent):
            found = _identity(self._kubelet)
            if found is None or found == known:
                continue
            if await self._ready() and await self._register():
                known = found

    async def _register(self) -> bool:
        """Whether the kubelet answered at all."""
        async with grpc.aio.insecure_channel(target(self._kubelet)) as channel:
            try:
                await REGISTER.stub(channel)(self._request, timeout=LIMIT)
            except grpc.aio.AioRpcError as error:
                if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                    log.debug("%s: no kubelet answers: %s", self._request.resource_name, error.details())
                    return False
                self._told(False, f"{error.code().name}: {error.details()}")
            else:
                self._told(True, "")
        return True


async def _looks(folder: Path) -> AsyncIterator[None]:
    """When to look into the folder: now, at each change in it, and now and then."""
    yield
    async for _ in awatch(folder, debounce=20, step=5, rust_timeout=_RESCAN, yield_on_timeout=True):
        yield


def _identity(socket: Path) -> tuple[int, int] | None:
    try:
        found = socket.lstat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns
