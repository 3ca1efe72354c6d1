"""Register a device plugin at the kubelet's socket, and again after each restart of the kubelet, or without its socket.

A starting kubelet removes the sockets of all plugins from that directory (D-11).
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc.aio
from watchfiles import awatch

from drahealth.proto.device_plugin import KUBELET_SOCKET, REGISTER
from drahealth.proto.sockets import target

REGISTER_TIMEOUT = 10.0
"""Timeout of a Register call, in seconds."""

_RESCAN = 500  # milliseconds between checks of the directory without a change

log = logging.getLogger(__name__)


class KubeletRegistration:
    """Registers with each kubelet socket that appears in a directory, and again when the plugin's socket was removed.

    `ready()` returns whether the plugin is served; `on_result(ok, error)` receives the kubelet's answer; `has_socket()`
    returns whether the plugin's socket exists.
    """

    def __init__(
        self,
        folder: Path,
        request: Any,
        ready: Callable[[], Awaitable[bool]],
        on_result: Callable[[bool, str], None],
        has_socket: Callable[[], bool],
    ) -> None:
        self._has_socket = has_socket
        self._kubelet = folder / KUBELET_SOCKET
        self._request = request
        self._ready = ready
        self._on_result = on_result

    async def run(self) -> None:
        """Registers with each new kubelet socket, and after each removal of the plugin's socket, until cancelled."""
        known = None
        self._kubelet.parent.mkdir(parents=True, exist_ok=True)
        async for _ in _ticks(self._kubelet.parent):
            found = _identity(self._kubelet)
            if found is None or (found == known and self._has_socket()):
                continue
            if await self._ready() and await self._register():
                known = found

    async def _register(self) -> bool:
        """Calls Register; returns whether the kubelet answered."""
        async with grpc.aio.insecure_channel(target(self._kubelet)) as channel:
            try:
                await REGISTER.stub(channel)(self._request, timeout=REGISTER_TIMEOUT)
            except grpc.aio.AioRpcError as error:
                if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                    log.debug("%s: the kubelet does not answer: %s", self._request.resource_name, error.details())
                    return False
                self._on_result(False, f"{error.code().name}: {error.details()}")
            else:
                self._on_result(True, "")
        return True


async def _ticks(folder: Path) -> AsyncIterator[None]:
    """When to check the folder: now, after each change in it, and every half second."""
    yield
    async for _ in awatch(folder, debounce=20, step=5, rust_timeout=_RESCAN, yield_on_timeout=True):
        yield


def _identity(socket: Path) -> tuple[int, int] | None:
    try:
        found = socket.lstat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns
