"""Long health streams: one for each health API, and several subscribers of one at once."""

import math
from contextlib import AsyncExitStack

from drahealth.proto.health_apis import HEALTH_APIS, HealthApi
from drahealth.suites.driver_checks.experiments import NotApplicable
from drahealth.suites.driver_checks.lab import Lab
from drahealth.suites.driver_checks.observed_health import FIRST_REPORT_WAIT, WATCHED
from drahealth.suites.driver_checks.registration_experiments import known
from drahealth.suites.driver_checks.scripted_kubelet import subscribed

WATCH_SECONDS = WATCHED + 1.0
"""Longer than the time that the checks judge: the stream can open a moment after drahealth asks for it."""
_LOOK = 0.5


async def watch(lab: Lab) -> None:
    """Keeps one stream of each health API open, until each report of the first 36 s is followed or no longer valid.

    The streams of `subscribers` count, too. The watch ends at its limit, even if a timeout is not over.
    """
    plugin, apis = await known(lab.facts.plugin), await health_apis(lab)
    clock = lab.subject.clock
    async with AsyncExitStack() as stack:
        began = clock.now()
        streams = [await stack.enter_async_context(subscribed(plugin, api, clock, lab.record)) for api in apis]
        lab.facts.watched += streams
        end = began + max(lab.run.longest_watch, WATCH_SECONDS)
        while any(stream.is_open for stream in streams) and clock.now() < end:
            if all(stream.can_end(WATCH_SECONDS) for stream in lab.facts.watched):
                break
            lab.subject.check_running()
            await clock.sleep(_LOOK)
    lab.subject.check_running()


async def subscribers(lab: Lab) -> None:
    """Opens two more streams of one health API until `watch` ends, and meanwhile one of each health API twice."""
    plugin, apis = await known(lab.facts.plugin), await health_apis(lab)
    clock, best = lab.subject.clock, apis[0]
    async with (
        subscribed(plugin, best, clock, lab.record) as first,
        subscribed(plugin, best, clock, lab.record) as second,
    ):
        lab.facts.watched += first, second
        for api in (best, *(one for one in apis[1:] if not one.prepared_only)):
            for _ in range(2):
                async with subscribed(plugin, api, clock, lab.record) as third:
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
