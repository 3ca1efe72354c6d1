"""Registers a driver as a kubelet does, or as it should not."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import grpc.aio
from tenacity import AsyncRetrying, RetryCallState, retry_if_result, stop_after_attempt, wait_fixed

from drahealth.fakes.waiting import within
from drahealth.manager.calls import PluginCalls, path_text
from drahealth.manager.device_plugins import DevicePluginManager
from drahealth.manager.dra import DraManager
from drahealth.manager.registration import DIAL_LIMIT, NOTIFY_LIMIT, Candidate, Socket, find_sockets
from drahealth.proto.clock import Clock
from drahealth.proto.events import Observe, RegistrationFailed
from drahealth.proto.quoting import one_line
from drahealth.proto.services import DRA_PLUGIN, GET_INFO, NOTIFY_REGISTRATION, MalformedMessage
from drahealth.proto.sockets import check_path
from drahealth.suites.driver_checks.scripted_kubelet import PAUSE, Plugin, connected
from drahealth.suites.driver_checks.subject.places import Places

# Registers a driver as a kubelet does, or as it should not: it refuses, or answers late.

INFO_LIMIT = 10.0
"""Seconds for GetInfo. A kubelet waits 1 s (W-12); more is allowed here, because the machine can be busy."""

_RETRY = 0.5
_ATTEMPTS = 4
_WORDS = 500  # characters of a reason


@dataclass(frozen=True, slots=True)
class Answer:
    """The kubelet's answer to a registration."""

    registered: bool = True
    error: str = ""
    delay: float = 0.0
    """Seconds between GetInfo and the answer."""


ACCEPT = Answer()


@dataclass(frozen=True, slots=True)
class Found:
    """A registration socket, and the answer to GetInfo."""

    socket: Socket
    info: Any = None
    """PluginInfo; None if GetInfo failed."""
    problem: str = ""
    answered: bool = False
    """Whether a gRPC server answered, also with an error."""


class Registrar:
    """The registration service of one socket. Calls raise nothing; failures are events."""

    def __init__(self, channel: grpc.aio.Channel, clock: Clock, observe: Observe, socket: Socket) -> None:
        self._channel = channel
        self._clock = clock
        self._observe = observe
        self._socket = socket
        self._call = PluginCalls(channel, clock, observe, socket.path)

    async def get_info(self) -> Found:
        """Connects, and calls GetInfo."""
        answered = False
        try:
            await within(self._clock, DIAL_LIMIT, self._channel.channel_ready())
            answered = True
            info = await self._call(GET_INFO, GET_INFO.request(), INFO_LIMIT)
        except TimeoutError:
            problem = f"no gRPC server answered within {DIAL_LIMIT:g} s"
        except grpc.aio.AioRpcError as error:
            problem = f"GetInfo failed: {error.code().name}: {error.details()}"
        except MalformedMessage as malformed:
            problem = f"GetInfo failed: {malformed}"
        else:
            return Found(self._socket, info, answered=True)
        return Found(self._socket, problem=one_line(problem, _WORDS), answered=answered)

    async def notify(self, answer: Answer) -> bool:
        """Calls NotifyRegistrationStatus; returns whether the call succeeded."""
        if answer.delay:
            await self._clock.sleep(answer.delay)
        status = NOTIFY_REGISTRATION.request(plugin_registered=answer.registered, error=answer.error)
        try:
            await self._call(NOTIFY_REGISTRATION, status, NOTIFY_LIMIT)
        except (grpc.aio.AioRpcError, MalformedMessage):
            return False
        return True


@asynccontextmanager
async def registrar(socket: Socket, clock: Clock, observe: Observe) -> AsyncGenerator[Registrar, None]:
    """A connection to a registration socket. Raises ValueError if its path is too long."""
    async with connected(socket.path) as channel:
        yield Registrar(channel, clock, observe, socket)


async def register(socket: Socket, clock: Clock, observe: Observe, answer: Answer = ACCEPT) -> Found:
    """The whole handshake with one socket: GetInfo, and the answer."""
    async with registrar(socket, clock, observe) as calls:
        found = await calls.get_info()
        if found.info is not None:
            await calls.notify(answer)
        return found


def plugin_of(found: Found, outside: Callable[[Path], Path] = lambda path: path) -> Plugin:
    """The plugin that GetInfo described. Raises ValueError if a kubelet cannot use the answer.

    `outside` finds the path of a socket that a driver in a sandbox names.
    """
    info, path = found.info, found.socket.path
    endpoint = Path(info.endpoint) if info.endpoint else path
    if not endpoint.is_absolute():
        raise ValueError(f"endpoint must be an absolute path, got {one_line(repr(info.endpoint))}")
    endpoint = outside(endpoint)
    check_path(endpoint)
    return Plugin(info.name, path, endpoint, tuple(info.supported_versions))


class Discovery:
    """Looks for the registration socket of a DRA driver, or of another plugin, in a directory, as a kubelet does.

    Each socket that fails is an event. A socket that was created again is another one.
    """

    def __init__(
        self,
        directory: Path,
        clock: Clock,
        observe: Observe,
        *,
        suits: Callable[[Socket], bool] = lambda socket: True,
        settle: float = 0.0,
        kind: str = DRA_PLUGIN,
    ) -> None:
        """Ignores sockets that do not suit. After the first driver it looks for others, for `settle` seconds.

        `kind` is the type of plugin that it looks for.
        """
        self._kind = kind
        self._directory = directory
        self._clock = clock
        self._observe = observe
        self._suits = suits
        self._settle = settle
        self._tasks: dict[Socket, asyncio.Task[Found]] = {}
        self.problems: dict[Path, str] = {}
        """The last problem of each socket at which GetInfo was not answered."""
        self.drivers: set[str] = set()
        """After `find` with `settle`: the names of all drivers in the directory."""

    async def find(self, limit: float, check: Callable[[], None]) -> Found | None:
        """The first socket of a DRA driver, else another one that answered; None without a socket.

        `check` is called often and ends the search with an exception, if the driver has ended. After the limit the
        search ends.
        """
        end = self._clock.now() + limit
        try:
            while (found := self._chosen(last=self._clock.now() >= end)) is None and self._clock.now() < end:
                check()
                self._describe_new()
                await self._clock.sleep(PAUSE)
            if found and self._settle:
                await self._clock.sleep(self._settle)
                self.drivers = {one.info.name for one in self._done() if self._is_wanted(one)}
            return found
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)
            self._tasks.clear()

    def _describe_new(self) -> None:
        for socket in find_sockets(self._directory):
            if socket not in self._tasks and self._suits(socket):
                self.problems[socket.path] = "GetInfo was not answered"
                self._tasks[socket] = asyncio.create_task(self._describe(socket))

    def _done(self) -> list[Found]:
        return [task.result() for task in self._tasks.values() if task.done()]

    def _chosen(self, *, last: bool) -> Found | None:
        done = self._done()
        drivers = [one for one in done if self._is_wanted(one)]
        if not drivers and len(done) < len(self._tasks) and not last:
            return None
        return next(iter(drivers), None) or max(done, key=_usefulness, default=None)

    def _is_wanted(self, found: Found) -> bool:
        return found.info is not None and found.info.type == self._kind

    async def _describe(self, socket: Socket) -> Found:
        retrying = AsyncRetrying(
            sleep=self._clock.sleep,
            wait=wait_fixed(_RETRY),
            retry=retry_if_result(lambda found: found.info is None),
            stop=stop_after_attempt(_ATTEMPTS),
            retry_error_callback=_result,
        )
        try:
            return await retrying(self._described, socket)
        except ValueError as error:  # a path that is too long stays so
            self._failed(socket, str(error))
            return Found(socket, problem=str(error))

    async def _described(self, socket: Socket) -> Found:
        """The answer to one call. Raises ValueError for a path that is too long."""
        async with registrar(socket, self._clock, self._observe) as calls:
            found = await calls.get_info()
        if found.info is None:
            self._failed(socket, found.problem)
        else:
            self.problems.pop(socket.path, None)
        return found

    def _failed(self, socket: Socket, problem: str) -> None:
        self.problems[socket.path] = problem
        self._observe(RegistrationFailed(path_text(socket.path), problem))


def _result(attempts: RetryCallState) -> Found:
    """The last answer."""
    assert attempts.outcome
    found: Found = attempts.outcome.result()
    return found


def _usefulness(found: Found) -> tuple[bool, bool]:
    return found.info is not None, found.answered


# The reference manager for a driver in a sandbox: it finds the sockets that the driver names.


def dra_manager(places: Places) -> type[DraManager]:
    """The half of the manager for DRA drivers, which looks for each endpoint where it is outside the sandbox."""

    class Outside(DraManager):
        async def register(self, candidate: Candidate) -> None:
            """Adds a plugin instance. Raises Refused."""
            await super().register(replace(candidate, endpoint=places.outside(candidate.endpoint)))

    return Outside


def device_plugin_manager(places: Places) -> type[DevicePluginManager]:
    """The same for the registration sockets of device plugins."""

    class Outside(DevicePluginManager):
        async def register(self, candidate: Candidate) -> None:
            """Adds a plugin. Raises Refused."""
            await super().register(replace(candidate, endpoint=places.outside(candidate.endpoint)))

    return Outside
