"""The experiments of ResourceSlices, also with an API server that is down."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from drahealth.fakes.waiting import first_of
from drahealth.manager.profile import KEP
from drahealth.manager.stream import advertised_health_api
from drahealth.suites.driver_checks.claims_experiments import Claims, claims_beside
from drahealth.suites.driver_checks.experiments import Incomplete, NotApplicable
from drahealth.suites.driver_checks.faults_steps import FaultStreams, fault_streams
from drahealth.suites.driver_checks.lab import Lab
from drahealth.suites.driver_checks.observed import PUBLISH_LIMIT
from drahealth.suites.driver_checks.observed_health import FIRST_REPORT_WAIT
from drahealth.suites.driver_checks.registration_experiments import (
    SOCKET_LIMIT,
    call_without_claims,
    described,
    known,
    list_sockets,
    plugin_of_process,
    register_again,
    registered,
    shared,
    terminated,
)
from drahealth.suites.driver_checks.scripted_kubelet import Plugin, subscribed
from drahealth.suites.driver_checks.slice_watch import are_complete, watched_slices

# The experiments of ResourceSlices.

LEAST_WATCH = 10.0
"""Seconds for which slices are watched at least; longer if health is watched meanwhile."""
RETURN_LIMIT = 75.0
"""Seconds until a deleted slice must be back.

The Go helper looks again 30 s after the last event of a slice. For 60 s it takes a slice that it has created as
existing. 15 s are for a busy machine. Source: k8s.io/dynamic-resource-allocation v0.34 to v0.37, package resourceslice,
DefaultSyncDelay and DefaultMutationCacheTTL.
"""


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
    Before it, claims were prepared and unprepared; others stay prepared meanwhile.
    """
    plugin = await plugin_of_process(lab)
    async with watched_slices(lab, plugin.driver) as watched:
        published = await watched.complete(plugin.driver)
        if not published:
            raise Incomplete(f"the driver published no ResourceSlice within {PUBLISH_LIMIT:g} s")
        watched.list()
        async with claims_beside(lab, plugin) as claims:
            await claims.try_some()
            await claims.hold_some()
            async with _stream_after_registration(lab, plugin) as stream:
                since = lab.subject.clock.now()
                await watched.delete(published[-1])
                await watched.returned(published[-1], RETURN_LIMIT)
                watched.list()
                await stream.follow(since, lab.run.longest_watch)
            await claims.release()
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


# The experiment with an API server that is down at the start of the driver, and later.

EARLY_LIMIT = 5.0
"""Seconds in which a driver may register without an API server; it need not."""
LATE_PUBLISH_LIMIT = 60.0
"""Seconds until it must have published its devices, once there is an API server."""
DOWN_SECONDS = 5.0
"""Seconds in which a driver notices that the API server is down; then it is called."""


async def api_server_down(lab: Lab) -> None:
    """Starts the driver without an API server, starts the API server, and stops it again, twice.

    The first time the driver is called, and unprepares claims; the second time it gets SIGTERM. An exit of the driver
    ends the experiment: its record is what the checks judge.
    """
    await lab.subject.set_reachable(False)
    try:
        await lab.subject.start()
        await _down_and_up_and_down(lab)
    except Incomplete:
        if lab.subject.running:
            raise
    finally:
        await lab.subject.set_reachable(True)


async def _down_and_up_and_down(lab: Lab) -> None:
    plugin = await _early_plugin(lab)
    lab.subject.check_running()
    await lab.subject.set_reachable(True)
    plugin = plugin or await registered(lab, await described(lab, SOCKET_LIMIT))
    async with AsyncExitStack() as stack:
        claims = Claims()
        if await _publish(lab, plugin):
            claims = await stack.enter_async_context(claims_beside(lab, plugin))
        await claims.hold_some()
        await _down(lab)
        await _call(lab, plugin)
        await claims.release()
        await lab.subject.set_reachable(True)
        await claims.try_some()
    await _down(lab)
    await terminated(lab)
    list_sockets(lab, "ended")


async def _down(lab: Lab) -> None:
    """Stops the API server, and waits until a driver must have noticed it."""
    lab.subject.check_running()
    await lab.subject.set_reachable(False)
    await first_of(lab.subject.clock.sleep(DOWN_SECONDS), lab.subject.exited())
    lab.subject.check_running()


async def _early_plugin(lab: Lab) -> Plugin | None:
    """The driver, if it registers without an API server."""
    with suppress(Incomplete):
        return await registered(lab, await described(lab, EARLY_LIMIT))
    return None


async def _publish(lab: Lab, plugin: Plugin) -> bool:
    """Lists the slices once they are complete; records nothing if that is never so. Returns whether it was so."""
    async with watched_slices(lab, plugin.driver) as watched:
        await first_of(watched.complete(plugin.driver, LATE_PUBLISH_LIMIT), lab.subject.exited())
        if complete := are_complete(watched.of_driver(plugin.driver)):
            watched.list()
        return complete


async def _call(lab: Lab, plugin: Plugin) -> None:
    """Calls every service of the driver."""
    with suppress(Incomplete):  # the record shows that the socket is gone
        await register_again(lab, plugin)
    for api in advertised_health_api(plugin.versions, KEP)[:1]:
        async with subscribed(plugin, api, lab.subject.clock, lab.record) as stream:
            await stream.reported(FIRST_REPORT_WAIT)
    await call_without_claims(lab, plugin)
