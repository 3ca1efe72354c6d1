"""The experiment with the ListAndWatch streams."""

import asyncio
from contextlib import AsyncExitStack

from drahealth.suites.checking.device_plugins.list_stream import listed
from drahealth.suites.checking.device_plugins.observed import FIRST_LIST_WAIT
from drahealth.suites.checking.experiments.first_steps import known, shared
from drahealth.suites.checking.lab import Lab
from drahealth.suites.checking.outcomes import Incomplete

WATCH_SECONDS = 10.0
"""How long the first stream stays open at least."""


async def list_and_watch(lab: Lab) -> None:
    """Opens a stream of each resource until the calls have ended, and then another one.

    A kubelet never opens two at once.
    """
    with shared(lab.facts.plugin_devices, "the device plugin sent no list") as fact:
        plugins = await known(lab.facts.device_plugins)
        clock = lab.subject.clock
        async with AsyncExitStack() as stack:
            streams = [await stack.enter_async_context(listed(one, clock, lab.record)) for one in plugins]
            end = clock.now() + WATCH_SECONDS
            firsts = await asyncio.gather(*(stream.devices(FIRST_LIST_WAIT) for stream in streams))
            found = {one.resource: first for one, first in zip(plugins, firsts, strict=True) if first is not None}
            if not found:
                fact.set_exception(Incomplete("the device plugin sent no list"))
                fact.exception()  # otherwise asyncio logs it if nobody waits
                return
            fact.set_result(found)
            for name in ("allocation", "preferred-allocation", "container-start"):
                await lab.ended(name)
            while clock.now() < end:
                lab.subject.check_running()
                await clock.sleep(0.25)
    async with AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(listed(one, clock, lab.record)) for one in plugins]
        await asyncio.gather(*(stream.devices(FIRST_LIST_WAIT) for stream in streams))
    lab.subject.check_running()
