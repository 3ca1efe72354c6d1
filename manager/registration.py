"""The registration of plugins: the directory with their sockets, and the kubelet's own socket for device plugins."""

import asyncio
import logging
import stat
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import grpc
import grpc.aio
from watchfiles import Change, awatch

from drahealth.manager.calls import PluginCalls, first_error, path_text, spawn
from drahealth.manager.plugin import REASON_LIMIT
from drahealth.proto.clock import Clock
from drahealth.proto.events import GrpcCall, Observe, RegistrationFailed, ignore
from drahealth.proto.plain_messages import plain
from drahealth.proto.quoting import one_line
from drahealth.proto.services import GET_INFO, KUBELET_SOCKET, NOTIFY_REGISTRATION, REGISTER, MalformedMessage, serve
from drahealth.proto.sockets import check_path, target

# The registration directory: finds sockets of plugins, registers them, and detects removed ones (W-10 to W-17).
#
# It is level-triggered: after each event, and once a second, it reads the directory again and compares it with the
# known sockets. Each socket has its own task, so a hanging one does not block others.

DIAL_LIMIT, INFO_LIMIT, NOTIFY_LIMIT = 10.0, 1.0, 5.0
"""Seconds for each step of the handshake (W-12)."""

_FIRST_RETRY, _LAST_RETRY = 0.5, 122.0  # seconds, doubling (W-13)
_RESCAN = 1000  # milliseconds (W-13)
_WORDS = 500  # characters of a reason

log = logging.getLogger(__name__)


class Refused(Exception):
    """The plugin is rejected; it receives the text."""


@dataclass(frozen=True, slots=True)
class Socket:
    """A registration socket. A socket that is removed and created again is another one (W-17).

    `made` is its modification time, which for a socket is its creation; links and modes do not change it. They change
    `changed`: a link that was removed and made again has another one.
    """

    path: Path
    inode: int
    made: int
    changed: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plugin's description of itself, from GetInfo."""

    socket: Socket
    type: str
    name: str
    """The name of the driver, or of the resource."""
    endpoint: Path
    versions: tuple[str, ...]


class Handler(Protocol):
    """Receives the plugins of one type. It is not called for a socket during another handshake of it."""

    async def register(self, candidate: Candidate) -> None:
        """Adds a plugin, or raises Refused."""

    async def deregister(self, socket: Socket) -> None:
        """The socket was removed; no effect for one that was not registered here."""


class RegistrationDirectory:
    """Watches `path` and keeps the plugins in it registered, each with the handler of its type (W-11)."""

    def __init__(
        self,
        path: Path,
        clock: Clock,
        handlers: Mapping[str, Handler],
        observe: Observe = ignore,
    ) -> None:
        self._path = path
        self._clock = clock
        self._handlers = handlers
        self._observe = observe
        self._tasks: dict[Socket, asyncio.Task[None]] = {}
        self._watcher: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._path.mkdir(parents=True, exist_ok=True)
        self._watcher = spawn(self._watch(), "registration directory")

    async def stop(self) -> None:
        """Ends the watch and all handshakes; deregisters no plugin."""
        tasks = [*self._tasks.values(), *([self._watcher] if self._watcher else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()

    async def _watch(self) -> None:
        try:
            changes = awatch(self._path, debounce=50, step=5, rust_timeout=_RESCAN, yield_on_timeout=True)
            await self._compare()
            async for events in changes:
                await self._compare({path for change, path in events if change is Change.deleted})
        except* (OSError, RuntimeError) as errors:  # no watches left, the directory has gone, or a name that is no text
            why = one_line(str(first_error(errors)), _WORDS)
            log.error("%s cannot be watched, reading it once a second instead: %s", self._path, why)
        while True:
            await self._compare()
            await self._clock.sleep(_RESCAN / 1000)

    async def _compare(self, deleted: Collection[str] = ()) -> None:
        """`deleted` are the paths that were deleted since the last call. A socket can be there again by now."""
        found = {socket: socket for socket in find_sockets(self._path)}
        for socket in list(self._tasks):
            now = found.get(socket)
            if now is None or (str(socket.path) in deleted and now.changed != socket.changed):
                await self._gone(socket)
        for socket in found.keys() - self._tasks.keys():
            name = f"registration of {socket.path.name}"
            self._tasks[socket] = spawn(self._keep_registered(socket), name)

    async def _gone(self, socket: Socket) -> None:
        task = self._tasks.pop(socket)
        task.cancel()
        await asyncio.wait([task])
        await self._deregister(socket)

    async def _keep_registered(self, socket: Socket) -> None:
        """Retries until the plugin is registered; logs each problem once."""
        pause, last = _FIRST_RETRY, ""
        while (wrong := await self._handshake(socket)) is not None:
            level = logging.DEBUG if wrong == last else logging.WARNING
            log.log(level, "plugin socket %s: %s; trying again", one_line(socket.path.name), one_line(wrong, _WORDS))
            last = wrong
            self._observe(RegistrationFailed(path_text(socket.path), one_line(wrong, _WORDS)))
            await self._clock.sleep(pause)
            pause = min(pause * 2, _LAST_RETRY)

    async def _handshake(self, socket: Socket) -> str | None:
        """GetInfo, register, NotifyRegistrationStatus; returns the error, or None."""
        try:
            address = target(socket.path)
        except ValueError as error:
            return str(error)
        async with grpc.aio.insecure_channel(address) as channel:
            call = PluginCalls(channel, self._clock, self._observe, socket.path)
            try:
                async with asyncio.timeout(DIAL_LIMIT):
                    await channel.channel_ready()
                candidate = await _ask(call, socket)
            except TimeoutError:
                return f"no answer within {DIAL_LIMIT:g} s"
            except grpc.aio.AioRpcError as error:
                return f"GetInfo failed, is it a plugin? {error.code().name}: {error.details()}"
            except MalformedMessage as malformed:
                return f"GetInfo failed, is it a plugin? {malformed}"
            except Refused as refused:
                return await self._refuse(call, refused)
            try:
                await self._handler(candidate).register(candidate)
            except Refused as refused:
                return await self._refuse(call, refused)
            if (wrong := await _notify(call, ok=True)) is not None:
                await self._deregister(socket)  # undone and tried again (W-16)
                return f"NotifyRegistrationStatus failed: {wrong}"
        return None

    def _handler(self, candidate: Candidate) -> Handler:
        try:
            return self._handlers[candidate.type]
        except KeyError:
            raise Refused(f"no handler for plugins of type {one_line(repr(candidate.type))}") from None

    async def _deregister(self, socket: Socket) -> None:
        for handler in self._handlers.values():
            await handler.deregister(socket)

    async def _refuse(self, call: PluginCalls, refused: Refused) -> str:
        reason = one_line(str(refused), _WORDS)
        await _notify(call, ok=False, error=reason)
        return f"rejected: {reason}"


def find_sockets(directory: Path) -> Iterator[Socket]:
    """The registration sockets in a directory and below it; names that start with a dot are ignored (W-10)."""
    folders = [directory]
    while folders:
        folder = folders.pop()
        with suppress(OSError):
            for path in folder.iterdir():
                if path.name.startswith("."):
                    continue
                with suppress(OSError):
                    found = path.lstat()
                    if stat.S_ISSOCK(found.st_mode):
                        yield Socket(path, found.st_ino, found.st_mtime_ns, found.st_ctime_ns)
                    elif stat.S_ISDIR(found.st_mode):
                        folders.append(path)


async def _ask(call: PluginCalls, socket: Socket) -> Candidate:
    info = await call(GET_INFO, GET_INFO.request(), INFO_LIMIT)
    versions = tuple(info.supported_versions)
    if not info.name:
        raise Refused("GetInfo must return a name")
    endpoint = _endpoint(info.endpoint) if info.endpoint else socket.path
    return Candidate(socket, info.type, info.name, endpoint, versions)


def _endpoint(text: str) -> Path:
    path = Path(text)
    if not path.is_absolute():
        raise Refused(f"endpoint {one_line(repr(text))} must be an absolute path")
    try:
        check_path(path)
    except ValueError as error:
        raise Refused(f"invalid endpoint: {error}") from None
    return path


async def _notify(call: PluginCalls, *, ok: bool, error: str = "") -> str | None:
    """Notifies the plugin; returns the reason if that failed, or None."""
    status = NOTIFY_REGISTRATION.request(plugin_registered=ok, error=error)
    try:
        await call(NOTIFY_REGISTRATION, status, NOTIFY_LIMIT)
    except grpc.aio.AioRpcError as failed:
        return f"{failed.code().name}: {failed.details()}"
    except MalformedMessage as malformed:
        return str(malformed)
    return None


# The kubelet's own registration socket, which device plugins call; it is in the directory of their sockets (D-11).

Register = Callable[[str, Path, str], Awaitable[None]]
"""Adds the plugin of a resource, with its endpoint and version, or raises Refused."""


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
