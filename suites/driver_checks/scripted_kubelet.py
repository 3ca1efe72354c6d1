"""The scripted kubelet: its connections, calls and health streams to one driver."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import grpc
import grpc.aio

from drahealth.fakes.waiting import within
from drahealth.manager.calls import PluginCalls, claims_request, malformed_received, next_stream, path_text
from drahealth.manager.plugin import CALL_LIMIT, describe_end
from drahealth.manager.profile import KEP
from drahealth.proto.clock import Clock
from drahealth.proto.events import Observe, ReportReceived, StreamClosed, StreamOpened
from drahealth.proto.health_apis import HealthApi
from drahealth.proto.plain_messages import undecoded
from drahealth.proto.services import PREPARE, UNPREPARE, MalformedMessage, Unary
from drahealth.proto.sockets import target
from drahealth.proto.values import ClaimRef, DeviceHealth
from drahealth.suites.driver_checks.evidence import CANCELLED_BY_US
from drahealth.suites.driver_checks.observed_health import LastReport

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
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _reported_or_ended(self) -> None:
        first = asyncio.create_task(self._first.wait())
        try:
            await asyncio.wait([first, self._task], return_when=asyncio.FIRST_COMPLETED)
        finally:
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)

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
