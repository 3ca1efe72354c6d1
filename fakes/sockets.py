"""Unix sockets of a fake plugin: served by gRPC, and left lying or taken away on purpose."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc.aio

from drahealth.fakes.files.socket_files import SocketInUse, is_served
from drahealth.proto.quoting import one_line
from drahealth.proto.services import Method, serve
from drahealth.proto.sockets import PATH_LIMIT as PATH_LIMIT
from drahealth.proto.sockets import check_path, target


class ServedSocket:
    """A gRPC server behind `path`.

    gRPC removes its socket file when the server ends. A plugin that is killed leaves its file, so the server listens
    on a hidden file beside and `path` is a second link to it, whose fate is ours. With `listen`, which gives the gRPC
    address to listen at for a path, that is not done.
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
        """Raises SocketInUse where somebody serves there."""
        if self._listen is None:
            for path in (self.path, self._hidden):
                if is_served(path):
                    raise SocketInUse(f"somebody serves at {one_line(str(path))} already")

    async def start(self) -> None:
        """Serves; a file of an earlier run at `path` is replaced.

        Raises SocketInUse where somebody serves there already, and OSError where it cannot be served.
        """
        self.check_free()
        if self._listen is None:
            for path in (self.path, self._hidden):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.unlink(missing_ok=True)
        address = self._listen(self.path) if self._listen else target(self._hidden)
        self._server = grpc.aio.server(interceptors=self._interceptors, options=[("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers(serve(self._functions))
        try:
            self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise OSError(f"nobody can listen at {address}: {error}") from None
        await self._server.start()
        if self._listen is None:
            self.path.hardlink_to(self._hidden)
        with suppress(FileNotFoundError):  # an address that is no path of this file system
            self._linked = _identity(self.path)

    @property
    def is_there(self) -> bool:
        """Whether the file at `path` is there, and ours."""
        with suppress(FileNotFoundError):
            return self._server is not None and _identity(self.path) == self._linked
        return False

    def remove(self) -> None:
        """Takes the file away, if it is ours; connections that are open stay open."""
        if self._linked is not None:
            with suppress(FileNotFoundError):
                if _identity(self.path) == self._linked:
                    self.path.unlink(missing_ok=True)
            self._linked = None

    def restore(self) -> None:
        """Puts the file back that was taken away. Raises SocketInUse where somebody serves there by now."""
        if self._linked is not None or self._listen is not None:
            return
        if is_served(self.path):
            raise SocketInUse(f"somebody serves at {one_line(str(self.path))} already")
        self.path.unlink(missing_ok=True)
        self.path.hardlink_to(self._hidden)
        self._linked = _identity(self.path)

    async def stop(self, grace: float | None = None) -> None:
        """Ends the server and its connections, calls under way get `grace` seconds; the file at `path` stays."""
        server, self._server = self._server, None
        if server:
            await server.stop(grace)
            with suppress(OSError):
                self._hidden.unlink()


def _identity(path: Path) -> tuple[int, int]:
    """What tells a file from a later one of the same name, which may have the same inode. Raises FileNotFoundError."""
    found = path.stat()
    return found.st_ino, found.st_mtime_ns
