"""Unix sockets of a fake plugin, served by gRPC. Tests can leave or remove the socket files."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc.aio

from drahealth.proto.quoting import one_line
from drahealth.proto.services import Method, serve
from drahealth.proto.sockets import PATH_LIMIT as PATH_LIMIT
from drahealth.proto.sockets import SocketInUse, check_path, is_served, target

_FOLDER_MODE = 0o750
"""The mode of the folders of sockets, as with a real kubelet."""


class ServedSocket:
    """A gRPC server behind `path`.

    gRPC removes its socket file when the server stops, but a killed plugin leaves its file. So the server listens on a
    hidden file next to `path`, and `path` is a hard link to it that this class controls. `listen` maps the path to
    another gRPC address; then there is no link.
    """

    def __init__(
        self,
        path: Path,
        hidden: Path,
        functions: Mapping[Method, Callable[..., Any]],
        *,
        listen: Callable[[Path], str] | None = None,
        interceptors: Sequence[grpc.aio.ServerInterceptor] = (),
    ) -> None:
        for name in (path, hidden):
            check_path(name)
        self.path = path
        self._hidden = hidden
        self._functions = functions
        self._listen = listen
        self._interceptors = interceptors
        self._linked: tuple[int, int] | None = None
        self._server: grpc.aio.Server | None = None

    def check_free(self) -> None:
        """Raises SocketInUse if another process serves at the path."""
        if self._listen is None:
            for path in (self.path, self._hidden):
                if is_served(path):
                    raise SocketInUse(f"another process serves at {one_line(str(path))}; stop it first")

    async def start(self) -> None:
        """Starts the server; replaces a file of an earlier run.

        Raises SocketInUse if another process serves at the path, and OSError if the server cannot listen.
        """
        self.check_free()
        if self._listen is None:
            for path in (self.path, self._hidden):
                path.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
                path.unlink(missing_ok=True)
        address = self._listen(self.path) if self._listen else target(self._hidden)
        self._server = grpc.aio.server(interceptors=self._interceptors, options=[("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers(serve(self._functions))
        mask = os.umask(0o177)  # only the owner can connect
        try:
            self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise OSError(f"cannot listen at {address}: {error}") from None
        finally:
            os.umask(mask)
        await self._server.start()
        if self._listen is None:
            self.path.hardlink_to(self._hidden)
        with suppress(FileNotFoundError):  # the address is not a path of this file system
            self._linked = _identity(self.path)

    @property
    def has_file(self) -> bool:
        """Whether the file at `path` exists and belongs to this server."""
        with suppress(FileNotFoundError):
            return self._server is not None and _identity(self.path) == self._linked
        return False

    def remove(self) -> None:
        """Removes the file, if it belongs to this server; open connections stay open."""
        if self._linked is not None:
            with suppress(FileNotFoundError):
                if _identity(self.path) == self._linked:
                    self.path.unlink(missing_ok=True)
            self._linked = None

    def restore(self) -> None:
        """Restores the removed file. Raises SocketInUse if another process serves at the path."""
        if self._linked is not None or self._listen is not None:
            return
        if is_served(self.path):
            raise SocketInUse(f"another process serves at {one_line(str(self.path))}; stop it first")
        self.path.unlink(missing_ok=True)
        self.path.hardlink_to(self._hidden)
        self._linked = _identity(self.path)

    async def stop(self, grace: float | None = None) -> None:
        """Stops the server; running calls get `grace` seconds to end. The file at `path` stays."""
        server, self._server = self._server, None
        if server:
            await server.stop(grace)
            with suppress(OSError):
                self._hidden.unlink()


def _identity(path: Path) -> tuple[int, int]:
    """Identifies a file; a later file of the same name can have the same inode. Raises FileNotFoundError."""
    found = path.stat()
    return found.st_ino, found.st_mtime_ns
