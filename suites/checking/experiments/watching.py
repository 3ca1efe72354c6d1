"""Long health streams: one for each health API, and several subscribers of one at once."""

import math
from contextlib import AsyncExitStack

from drahealth.proto.health_apis import HEALTH_APIS, HealthApi
from drahealth.suites.checking.experiments.first_steps import known
from drahealth.suites.checking.kubelet.subscriber import Subscriber, subscribed
from drahealth.suites.checking.lab import Lab
from drahealth.suites.checking.observed.streams import FIRST_REPORT_WAIT
from drahealth.suites.checking.outcomes import NotApplicable

WATCH_SECONDS = 36.0
"""Longer than the kubelet's default timeout of 30 s, and than the 35 s of a driver that reports just in time."""
LONGEST_WATCH = 75.0
_MARGIN = 1.2
"""A device with a larger timeout is watched for this multiple of it."""
_LOOK = 0.5


async def watch(lab: Lab) -> None:
    """Keeps one stream of each health API open, long enough to see each device refreshed."""
    plugin, apis = await known(lab.facts.plugin), await health_apis(lab)
    clock = lab.subject.clock
    async with AsyncExitStack() as stack:
        began = clock.now()
        streams = [await stack.enter_async_context(subscribed(plugin, api, clock, lab.record)) for api in apis]
        while any(stream.is_open for stream in streams) and clock.now() < began + _duration(streams):
            lab.subject.check_running()
            await clock.sleep(_LOOK)
    lab.subject.check_running()


async def subscribers(lab: Lab) -> None:
    """Opens two more streams of one health API until `watch` ends, and meanwhile a third one twice."""
    plugin, apis = await known(lab.facts.plugin), await health_apis(lab)
    clock, best = lab.subject.clock, apis[0]
    async with (
        subscribed(plugin, best, clock, lab.record) as first,
        subscribed(plugin, best, clock, lab.record) as second,
    ):
        for _ in range(2):
            async with subscribed(plugin, best, clock, lab.record) as third:
                await third.reported(FIRST_REPORT_WAIT)
            lab.subject.check_running()
        for stream in (first, second):
            await stream.reported(FIRST_REPORT_WAIT)
        await lab.ended("watch")
    lab.subject.check_running()


async def slow_subscriber(lab: Lab) -> None:
    """Opens a stream until `watch` ends, and reads only its first report. The streams of `watch` show the effect."""
    plugin, apis = await known(lab.facts.plugin), await health_apis(lab)
    async with subscribed(plugin, apis[0], lab.subject.clock, lab.record, pace=math.inf):
        await lab.ended("watch")
    lab.subject.check_running()


async def health_apis(lab: Lab) -> list[HealthApi]:
    """The health APIs that stream, the best one first. Raises NotApplicable if there is none."""
    names = await known(lab.facts.health_apis)
    if not names:
        raise NotApplicable("the driver streams no health API")
    return [HEALTH_APIS[name] for name in names]


def _duration(streams: list[Subscriber]) -> float:
    largest = max(stream.largest_timeout for stream in streams)
    return max(WATCH_SECONDS, min(_MARGIN * largest, LONGEST_WATCH))
