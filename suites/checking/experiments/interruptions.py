"""The experiments that interrupt a driver: it is stopped, has no subscriber, and its kubelet restarts."""

import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from drahealth.suites.checking.experiments.fault_steps import bench_of
from drahealth.suites.checking.experiments.first_steps import plugin_of_process
from drahealth.suites.checking.experiments.published import PUBLISH_LIMIT, watched_slices
from drahealth.suites.checking.experiments.registration import register_again
from drahealth.suites.checking.experiments.services import call_without_claims
from drahealth.suites.checking.lab import Lab
from drahealth.suites.checking.observed.devices import SLICES_LIMIT
from drahealth.suites.checking.outcomes import Incomplete

STOPPED_SECONDS = 5.0
"""Seconds for which the driver is stopped."""
IDLE_SECONDS = 36.0
"""Seconds without a subscriber: longer than the kubelet's default timeout of 30 s."""


async def stop_and_continue(lab: Lab) -> None:
    """Stops the driver for 5 s with SIGSTOP, continues it with SIGCONT, and waits for a report on each stream."""
    async with bench_of(lab) as bench:
        async with stopped(lab):
            await lab.subject.clock.sleep(STOPPED_SECONDS)
        await bench.streams.report_again()
    lab.subject.check_running()


@asynccontextmanager
async def stopped(lab: Lab) -> AsyncGenerator[None, None]:
    """The driver is stopped with SIGSTOP, and continued with SIGCONT at the end."""
    await lab.subject.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        await lab.subject.signal(signal.SIGCONT)


async def idle(lab: Lab) -> None:
    """Closes all health streams for 36 s, opens two again, and follows their first reports."""
    async with bench_of(lab) as bench:
        await bench.close()
        await lab.subject.clock.sleep(IDLE_SECONDS)
        lab.subject.check_running()
        await bench.open()
        await bench.follow()


async def kubelet_restart(lab: Lab) -> None:
    """Deletes the ResourceSlices, as a starting kubelet does, registers the driver again, and waits for slices."""
    plugin = await plugin_of_process(lab)
    async with watched_slices(lab, plugin.driver) as watched:
        published = await watched.complete(plugin.driver)
        if not published:
            raise Incomplete(f"the driver published no ResourceSlice within {PUBLISH_LIMIT:g} s")
        watched.list()
        for one in published:
            await watched.delete(one)
        await register_again(lab, plugin)
        for one in published:
            await watched.returned(one, SLICES_LIMIT)
        watched.list()
        await call_without_claims(lab, plugin)
    lab.subject.check_running()
