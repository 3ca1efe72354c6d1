"""The kubelet's own registration socket, which device plugins call; it is in the directory of their sockets (D-11)."""

import logging
import stat
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from drahealth.manager.plugin import REASON_LIMIT
from drahealth.manager.registration import Refused
from drahealth.proto.clock import Clock
from drahealth.proto.device_plugin import KUBELET_SOCKET, REGISTER
from drahealth.proto.events import GrpcCall, Observe, ignore
from drahealth.proto.plain_messages import plain
from drahealth.proto.quoting import one_line
from drahealth.proto.services import serve
from drahealth.proto.sockets import target

Register = Callable[[str, Path, str], Awaitable[None]]
"""Adds the plugin of a resource, with its endpoint and version, or raises Refused."""

log = logging.getLogger(__name__)


class KubeletSocket:
    """Serves `kubelet.sock` in the directory of the device plugins.

    It removes existing sockets at the start, as kubelets do: plugins then register again. If the directory cannot be
    used, only this way of registration is missing.
    """

    def __init__(
        self, directory: Path, register: Register, clock: Clock, observe: Observe = ignore, *, logs: bool = True
    ) -> None:
        """`logs`: log rejected registrations."""
        self.path = directory / KUBELET_SOCKET
        self._register = register
        self._clock = clock
        self._observe = observe
        self._logs = logs
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        """Starts the server."""
        try:
            address = target(self.path)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            _remove_sockets(self.path.parent)
            server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
            server.add_generic_rpc_handlers(serve({REGISTER: self._registered}))
            server.add_insecure_port(address)
            await server.start()
        except (OSError, ValueError, RuntimeError) as error:
            log.error("%s cannot be served, so device plugins cannot register: %s", self.path, error)
        else:
            self._server = server

    async def stop(self) -> None:
        """Stops the server."""
        server, self._server = self._server, None
        if server:
            await server.stop(grace=None)

    async def _registered(self, request: Any, context: "grpc.aio.ServicerContext[Any, Any]") -> Any:
        began = self._clock.now()
        try:
            path = self._endpoint(request.endpoint)
            await self._register(request.resource_name, path, request.version)
        except Refused as refused:
            self._observe_registration(request, began, str(refused))
            reason = one_line(str(refused), REASON_LIMIT)
            if self._logs:
                log.warning(
                    "device plugin of %s at %s rejected: %s",
                    one_line(repr(request.resource_name)),
                    one_line(repr(request.endpoint)),
                    reason,
                )
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, reason)
        self._observe_registration(request, began)
        return REGISTER.response()

    def _observe_registration(self, request: Any, began: float, refused: str = "") -> None:
        if self._observe is ignore:
            return
        self._observe(
            GrpcCall(
                request.resource_name,
                request.endpoint,
                REGISTER.path.removeprefix("/"),
                plain(request),
                None if refused else {},
                self._clock.now() - began,
                grpc.StatusCode.INVALID_ARGUMENT.name if refused else "OK",
                refused,
                caller="plugin",
            )
        )

    def _endpoint(self, name: str) -> Path:
        if not name or name in (".", "..", KUBELET_SOCKET) or "/" in name or "\0" in name:
            raise Refused(f"endpoint must be the name of a socket beside {KUBELET_SOCKET}, got {one_line(repr(name))}")
        return self.path.parent / name


def _remove_sockets(directory: Path) -> None:
    for path in directory.iterdir():
        with suppress(FileNotFoundError):  # another program removes its socket at the same time
            if stat.S_ISSOCK(path.lstat().st_mode):
                path.unlink()
