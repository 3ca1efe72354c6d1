"""The experiment with the ListAndWatch stream."""

from drahealth.suites.checking.device_plugins.experiments.registering import LIST_LIMIT
from drahealth.suites.checking.device_plugins.list_stream import listed
from drahealth.suites.checking.experiments.first_steps import known, shared
from drahealth.suites.checking.lab import Lab
from drahealth.suites.checking.outcomes import Incomplete

WATCH_SECONDS = 10.0
"""How long the first stream stays open at least."""


async def list_and_watch(lab: Lab) -> None:
    """Opens one stream until the calls have ended, and then another one. A kubelet never opens two at once."""
    with shared(lab.facts.plugin_devices, "the device plugin sent no list") as fact:
        plugin = await known(lab.facts.device_plugin)
        clock = lab.subject.clock
        async with listed(plugin, clock, lab.record) as stream:
            end = clock.now() + WATCH_SECONDS
            devices = await stream.devices(LIST_LIMIT)
            if devices is None:
                fact.set_exception(Incomplete("the device plugin sent no list"))
                fact.exception()  # otherwise asyncio logs it if nobody waits
                return
            fact.set_result(devices)
            for name in ("allocation", "preferred-allocation", "container-start"):
                await lab.ended(name)
            while clock.now() < end:
                lab.subject.check_running()
                await clock.sleep(0.25)
    async with listed(plugin, clock, lab.record) as stream:
        await stream.devices(LIST_LIMIT)
    lab.subject.check_running()
