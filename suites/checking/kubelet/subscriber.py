"""One health stream, as a kubelet opens it. Several at once are several subscribers."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager

import grpc.aio

from drahealth.manager.calls import malformed_received, next_stream, path_text
from drahealth.manager.plugin import describe_end
from drahealth.proto.clock import Clock
from drahealth.proto.events import Observe, ReportReceived, StreamClosed, StreamOpened
from drahealth.proto.health_apis import HealthApi
from drahealth.proto.plain_messages import undecoded
from drahealth.proto.services import MalformedMessage
from drahealth.proto.values import DeviceHealth
from drahealth.suites.checking.kubelet.connection import connected
from drahealth.suites.checking.kubelet.plugin import Plugin
from drahealth.suites.checking.kubelet.waiting import within
from drahealth.suites.checking.observed.timeouts import LastReport

REPORTS_LIMIT = 5000
"""Reports of one stream that are recorded; a driver that sends more floods its subscribers."""
BYTES_LIMIT = 64 * 2**20
"""The same for their size."""
CANCELLED_BY_US = "cancelled by drahealth"


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
