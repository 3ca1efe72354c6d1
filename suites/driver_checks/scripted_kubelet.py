"""The scripted kubelet: its connections, calls and health streams to one driver."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import grpc
import grpc.aio
from tenacity import AsyncRetrying, RetryCallState, retry_if_result, stop_after_attempt, wait_fixed

from drahealth.fakes.waiting import cancel_and_wait, within
from drahealth.manager.calls import PluginCalls, claims_request, malformed_received, next_stream, path_text
from drahealth.manager.device_plugins import DevicePluginManager
from drahealth.manager.dra import DraManager
from drahealth.manager.plugin import CALL_LIMIT, describe_end
from drahealth.manager.profile import KEP
from drahealth.manager.registration import DIAL_LIMIT, NOTIFY_LIMIT, Candidate, Socket, find_sockets
from drahealth.proto.clock import Clock
from drahealth.proto.events import Observe, RegistrationFailed, ReportReceived, StreamClosed, StreamOpened
from drahealth.proto.health_apis import HealthApi
from drahealth.proto.plain_messages import undecoded
from drahealth.proto.quoting import one_line
from drahealth.proto.services import (
    DRA_PLUGIN,
    GET_INFO,
    NOTIFY_REGISTRATION,
    PREPARE,
    UNPREPARE,
    MalformedMessage,
    Unary,
)
from drahealth.proto.sockets import check_path, target
from drahealth.proto.values import ClaimRef, DeviceHealth
from drahealth.suites.driver_checks.evidence import CANCELLED_BY_US
from drahealth.suites.driver_checks.observed_health import LastReport
from drahealth.suites.driver_checks.subject.places import Places

PAUSE = 0.05
"""Seconds between two looks at something that sends no events, such as a directory."""


# A registered DRA driver. A value.


@dataclass(frozen=True, slots=True)
class Plugin:
    """A registered driver, from GetInfo."""

    driver: str
    socket: Path
    """The registration socket."""
    endpoint: Path
    """The socket of its DRA and health services."""
    versions: tuple[str, ...]


# Connections to a driver. Each has its own socket, as those of two kubelets would.

_OPTIONS = [
    ("grpc.use_local_subchannel_pool", 1),  # otherwise gRPC shares one socket between all channels to a path
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.max_receive_message_length", KEP.largest_report),
]


@asynccontextmanager
async def connected(path: Path) -> AsyncGenerator[grpc.aio.Channel, None]:
    """A connection to the socket, opened at the first call. Raises ValueError for an invalid path."""
    async with grpc.aio.insecure_channel(target(path), options=_OPTIONS) as channel:
        yield channel


# The DRA calls of a kubelet: prepare and unprepare, with the result of each claim.


@dataclass(frozen=True, slots=True)
class Called:
    """The outcome of a call."""

    problem: str = ""
    """Why it failed; empty if it succeeded."""
    timed_out: bool = False
    """Whether it did not end within its limit."""
    errors: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The error of each claim that has a result, by UID; empty for success."""

    def problem_of(self, claim: ClaimRef) -> str:
        """Why it failed for this claim; empty if it succeeded."""
        return self.problem or self.errors.get(claim.uid, "the answer has no result for this claim")


class DraCalls:
    """Calls one version of the DRA service. A call that fails raises nothing; a cancelled call is an event, too."""

    def __init__(self, channel: grpc.aio.Channel, clock: Clock, observe: Observe, plugin: Plugin, version: str) -> None:
        self._call = PluginCalls(channel, clock, observe, plugin.endpoint, plugin.driver)
        self._version = version

    async def prepare(self, *claims: ClaimRef, limit: float = CALL_LIMIT) -> Called:
        """Prepares claims, within `limit` seconds."""
        return await self._ask(PREPARE[self._version], claims, limit)

    async def unprepare(self, *claims: ClaimRef, limit: float = CALL_LIMIT) -> Called:
        """Unprepares claims, within `limit` seconds."""
        return await self._ask(UNPREPARE[self._version], claims, limit)

    async def _ask(self, method: Unary[Any, Any], claims: tuple[ClaimRef, ...], limit: float) -> Called:
        try:
            response = await self._call(method, claims_request(method, claims), limit)
        except grpc.aio.AioRpcError as error:
            return Called(describe_end(error), timed_out=error.code() is grpc.StatusCode.DEADLINE_EXCEEDED)
        except MalformedMessage as malformed:
            return Called(str(malformed))
        return Called(errors={uid: result.error for uid, result in response.claims.items()})


def preferred_version(plugin: Plugin) -> str | None:
    """The DRA service that a kubelet calls: the first one that the plugin advertises."""
    return next((version for version in plugin.versions if version in PREPARE), None)


# One health stream, as a kubelet opens it. Several at once are several subscribers.

REPORTS_LIMIT = 5000
"""Reports of one stream that are recorded; a driver that sends more floods its subscribers."""
BYTES_LIMIT = 64 * 2**20
"""The same for their size."""


class Subscriber:
    """A health stream from `subscribed` to its end."""

    def __init__(
        self, channel: grpc.aio.Channel, clock: Clock, observe: Observe, plugin: Plugin, api: HealthApi, pace: float
    ) -> None:
        self.api = api
        self.reports = 0
        """Number of received reports."""
        self.largest_timeout = 0
        """The largest timeout in the reports, in seconds; 0 stands for the kubelet's default."""
        self.latest: dict[tuple[str, str], DeviceHealth] = {}
        """The last report of each device, by pool and name."""
        self.counts: Counter[tuple[str, str]] = Counter()
        """Number of reports of each device."""
        self._last: dict[tuple[str, str], LastReport] = {}
        self._opened = clock.now()
        self._clock = clock
        self._observe = observe
        self._plugin = plugin
        self._channel = channel
        self._pace = pace
        self._first = asyncio.Event()
        self._task = asyncio.create_task(self._read(), name=f"health stream of {plugin.driver}")

    @property
    def is_open(self) -> bool:
        """Whether the stream has not ended."""
        return not self._task.done()

    def can_end(self, seconds: float) -> bool:
        """Whether it was open for so many seconds, and all reports of this time are followed or no longer valid.

        A health API of prepared devices has no timeouts.
        """
        watched = self._opened + seconds
        return not self.is_open or (self._clock.now() >= watched and self.is_followed(watched))

    def is_followed(self, watched: float) -> bool:
        """Whether the stream has ended, or all reports until a time are followed or no longer valid."""
        now = self._clock.now()
        lasts = () if self.api.prepared_only else self._last.values()
        return not self.is_open or all(one.can_end(watched, now) for one in lasts)

    async def reported(self, limit: float) -> bool:
        """Waits for the first report; returns whether it came, before the stream ended and within the limit."""
        try:
            await within(self._clock, limit, self._reported_or_ended())
        except TimeoutError:
            return False
        return self._first.is_set()

    async def ended(self) -> None:
        """Waits until the stream ends."""
        await asyncio.wait([self._task])

    async def cancel(self) -> None:
        """Ends the stream; no effect if it has ended."""
        await cancel_and_wait(self._task)

    async def _reported_or_ended(self) -> None:
        first = asyncio.create_task(self._first.wait())
        try:
            await asyncio.wait([first, self._task], return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_and_wait(first)

    async def _read(self) -> None:
        driver, endpoint, stream = self._plugin.driver, path_text(self._plugin.endpoint), next_stream()
        self._opened = self._clock.now()
        self._observe(StreamOpened(driver, "", stream, self.api.name, endpoint))
        responses = self.api.method.stub(self._channel)(self.api.method.request())
        size, why, code = 0, CANCELLED_BY_US, "CANCELLED"
        try:
            async for response in responses:
                report = self.api.decode(response)
                more = undecoded(self.api, response, report)
                self._observe(ReportReceived(driver, endpoint, stream, responses.size, report, more))
                self.reports += 1
                self.latest |= {(one.pool, one.device): one for one in report}
                self._follow(report)
                self.counts.update({(one.pool, one.device) for one in report})
                size += responses.size
                self.largest_timeout = max(self.largest_timeout, *(device.timeout for device in report), 0)
                self._first.set()
                if self.reports >= REPORTS_LIMIT or size >= BYTES_LIMIT:
                    why = f"{CANCELLED_BY_US} after {self.reports} reports with {size} bytes"
                    return
                if self._pace:
                    await self._clock.sleep(self._pace)
            why, code = "ended by the driver", "OK"
        except grpc.aio.AioRpcError as error:
            why, code = describe_end(error), error.code().name
        except MalformedMessage as malformed:
            self._observe(malformed_received(driver, self._plugin.endpoint, stream, malformed))
            why, code = str(malformed), ""
        finally:
            responses.cancel()
            self._observe(StreamClosed(driver, "", stream, why, endpoint, code))

    def _follow(self, report: Iterable[DeviceHealth]) -> None:
        now = self._clock.now()
        for one in report:
            key = (one.pool, one.device)
            self._last[key] = self._last[key].next(now, one) if key in self._last else LastReport(now, one)


@asynccontextmanager
async def subscribed(
    plugin: Plugin, api: HealthApi, clock: Clock, observe: Observe, *, pace: float = 0.0
) -> AsyncGenerator[Subscriber, None]:
    """A stream on a connection of its own; it is cancelled at the end.

    `pace` is the pause after each report, in seconds: a slow reader. With `math.inf` it reads one report, and then the
    stream is idle.
    """
    async with connected(plugin.endpoint) as channel:
        subscriber = Subscriber(channel, clock, observe, plugin, api, pace)
        try:
            yield subscriber
        finally:
            await subscriber.cancel()


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
            await cancel_and_wait(*self._tasks.values())
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
        return next(iter(drivers), None) or max(
            done, key=lambda one: (one.info is not None, one.answered), default=None
        )

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
