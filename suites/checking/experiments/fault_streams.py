"""Two health streams at once, and what they show of the device that a fault breaks."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from drahealth.manager.plugin import advertised_health_api
from drahealth.manager.profile import KEP
from drahealth.proto.health_apis import HEALTH_APIS, HealthApi
from drahealth.proto.values import DEFAULT_TIMEOUT, DeviceHealth, Health
from drahealth.suites.checking.faults import MARGIN
from drahealth.suites.checking.kubelet.plugin import Plugin
from drahealth.suites.checking.kubelet.subscriber import Subscriber, subscribed
from drahealth.suites.checking.kubelet.waiting import until
from drahealth.suites.checking.lab import Lab
from drahealth.suites.checking.observed.devices import Device
from drahealth.suites.checking.observed.streams import FIRST_REPORT_WAIT
from drahealth.suites.checking.outcomes import NotApplicable

Shown = Callable[[DeviceHealth], bool]


class FaultStreams:
    """The open streams, all of one health API. The second subscriber shows whether all streams hear a change."""

    def __init__(self, lab: Lab, streams: Sequence[Subscriber]) -> None:
        self._lab = lab
        self._streams = streams

    def reported(self) -> list[Device]:
        """The devices that the streams listed, in the order of the first report."""
        return list(dict.fromkeys(Device(*key) for stream in self._streams for key in stream.latest))

    def of(self, device: Device) -> list[DeviceHealth]:
        """What each stream last showed of a device."""
        return [stream.latest[device] for stream in self._streams if device in stream.latest]

    async def show(self, device: Device, shown: Shown, limit: float) -> bool:
        """Waits until all streams show it; returns whether any does. Raises Incomplete if the driver ends.

        A stream that does not show it within the limit must have one more report of the device, as a fence: only
        then its absence proves something.
        """

        def all_show() -> bool:
            self._lab.subject.check_running()
            return all(device in one.latest and shown(one.latest[device]) for one in self._streams)

        if not await until(self._lab.subject.clock, limit, all_show):
            await self._fence(device, all_show)
        return any(map(shown, self.of(device)))

    async def report_again(self) -> None:
        """Waits until each stream has two more reports of each device: the second one within the timeout of the first.

        A timer that was due while the driver did not run gives the first one.
        """
        counts = [one.counts.copy() for one in self._streams]
        longest = max((one.largest_timeout for one in self._streams), default=0)
        pairs = list(zip(self._streams, counts, strict=True))

        def reported_again() -> bool:
            self._lab.subject.check_running()
            return all(one.counts[device] > count[device] + 1 for one, count in pairs for device in count)

        limit = 2 * ((longest if longest > 0 else DEFAULT_TIMEOUT) + MARGIN)
        await until(self._lab.subject.clock, limit, reported_again)

    async def follow(self, since: float | None = None, limit: float | None = None) -> None:
        """Waits until each stream has one more report of each device without a change, or its timeout is over.

        `since`: the time after which this report counts; by default, now. `limit`: the most seconds after it.
        """
        lab, now = self._lab, self._lab.subject.clock.now()
        start = now if since is None else since
        longest = lab.longest_watch / 2 if limit is None else limit

        def followed() -> bool:
            lab.subject.check_running()
            return all(one.is_followed(start) for one in self._streams)

        await until(lab.subject.clock, max(start + longest - now, 0), followed)

    async def _fence(self, device: Device, all_show: Callable[[], bool]) -> None:
        counts = [one.counts[device] for one in self._streams]
        timeout = max((one.timeout for one in self.of(device)), default=0)
        limit = (timeout if timeout > 0 else DEFAULT_TIMEOUT) + MARGIN

        def reported_again() -> bool:
            again = [one.counts[device] > count for one, count in zip(self._streams, counts, strict=True)]
            return all_show() or all(again)

        await until(self._lab.subject.clock, min(limit, FENCE_LIMIT), reported_again)


FENCE_LIMIT = 35.0
"""Seconds for the report that proves the absence of another one."""


SERVED_LIMIT = 15.0
"""Seconds until a health API counts as one without reports: the checks judge how soon the first report comes."""


def expected(health: Health) -> Shown:
    """Whether a report has this health."""
    return lambda one: one.health is health


@asynccontextmanager
async def fault_streams(lab: Lab, plugin: Plugin, count: int = 2) -> AsyncGenerator[FaultStreams, None]:
    """Streams of the best health API, each after its first report. Raises NotApplicable if the driver has none."""
    api = await _served(lab, plugin)
    clock = lab.subject.clock
    async with AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(subscribed(plugin, api, clock, lab.record)) for _ in range(count)]
        for stream in streams:
            await stream.reported(FIRST_REPORT_WAIT)
        lab.subject.check_running()
        yield FaultStreams(lab, streams)


async def _served(lab: Lab, plugin: Plugin) -> HealthApi:
    """The first health API that streams all devices."""
    if lab.facts.health_apis.done():
        return HEALTH_APIS[lab.facts.health_apis.result()[0]]
    advertised = [api for api in advertised_health_api(plugin.versions, KEP) if not api.prepared_only]
    others = [api for api in HEALTH_APIS.values() if not api.prepared_only and api not in advertised]
    for api in (*advertised, *others):
        async with subscribed(plugin, api, lab.subject.clock, lab.record) as stream:
            if await stream.reported(SERVED_LIMIT):
                lab.facts.health_apis.set_result((api.name,))
                return api
        lab.subject.check_running()
    raise NotApplicable("the driver streams no health API that lists all devices")
