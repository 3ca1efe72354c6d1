"""The experiments of ResourceSlices."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from drahealth.suites.checking.experiments.fault_streams import FaultStreams, fault_streams
from drahealth.suites.checking.experiments.first_steps import known, plugin_of_process, shared
from drahealth.suites.checking.experiments.published import PUBLISH_LIMIT, watched_slices
from drahealth.suites.checking.experiments.registration import register_again
from drahealth.suites.checking.kubelet.plugin import Plugin
from drahealth.suites.checking.lab import Lab
from drahealth.suites.checking.outcomes import Incomplete, NotApplicable

LEAST_WATCH = 10.0
"""Seconds for which slices are watched at least; longer if health is watched meanwhile."""
RETURN_LIMIT = 45.0
"""Seconds until a deleted slice must be back. The Go helper looks again 30 s after the last event of a slice."""


async def slices(lab: Lab) -> None:
    """Lists the slices once they are complete, and records each change until the end of `watch`."""
    with shared(lab.facts.slices, "the ResourceSlices were not listed") as fact:
        plugin = await known(lab.facts.plugin)
        async with watched_slices(lab, plugin.driver) as watched:
            published = await watched.complete(plugin.driver)
            watched.list()
            fact.set_result(published)
            await lab.subject.clock.sleep(LEAST_WATCH)
            await lab.ended("watch")
            watched.list()
    lab.subject.check_running()


async def slice_deletion(lab: Lab) -> None:
    """Registers the driver again, deletes a slice of the process, and waits until its devices are published again.

    Follows the reports of a health stream that was opened after the second registration, as by a restarted kubelet.
    """
    plugin = await plugin_of_process(lab)
    async with watched_slices(lab, plugin.driver) as watched:
        published = await watched.complete(plugin.driver)
        if not published:
            raise Incomplete(f"the driver published no ResourceSlice within {PUBLISH_LIMIT:g} s")
        watched.list()
        async with _stream_after_registration(lab, plugin) as stream:
            since = lab.subject.clock.now()
            await watched.delete(published[-1])
            await watched.returned(published[-1], RETURN_LIMIT)
            watched.list()
            await stream.follow(since, lab.longest_watch)
    lab.subject.check_running()


@asynccontextmanager
async def _stream_after_registration(lab: Lab, plugin: Plugin) -> AsyncGenerator[FaultStreams, None]:
    """A health stream that was opened after the driver was registered again; none if the driver has no health."""
    async with AsyncExitStack() as stack:
        streams = FaultStreams(lab, ())
        with suppress(NotApplicable, Incomplete):  # the experiment `reregistration` shows a registration that fails
            await register_again(lab, plugin)
            streams = await stack.enter_async_context(fault_streams(lab, plugin, 1))
        yield streams
