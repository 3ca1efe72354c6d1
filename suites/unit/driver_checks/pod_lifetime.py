"""A run with a Pod, whose clock moves only while the Pod runs."""

import asyncio

from drahealth.fakes.clock import JumpClock
from drahealth.proto.events import Event, PodRequested, StatusSeen
from drahealth.proto.values import Health
from drahealth.suites.driver_checks.driver_run import DriverRun
from drahealth.suites.driver_checks.evidence import Evidence
from drahealth.suites.driver_checks.observed_pods import resources
from drahealth.suites.driver_checks.run_experiments import run_experiments


async def run_while_the_pod_lives(asked: DriverRun) -> Evidence:
    """Runs the experiments. Time flies from the first Healthy device in a Pod status to the deletion of the Pod."""
    clock, running, deleted = JumpClock(), asyncio.Event(), asyncio.Event()

    def heard(_: str, event: Event) -> None:
        if isinstance(event, StatusSeen) and any(one.health is Health.HEALTHY for one in resources(event)):
            running.set()
        if isinstance(event, PodRequested) and event.change == "deleted":
            deleted.set()

    async def fly() -> None:
        await running.wait()
        while not deleted.is_set():
            clock.jump(0.25)
            await asyncio.sleep(0.005)

    flying = asyncio.create_task(fly())
    try:
        return await run_experiments(asked, heard, clock)
    finally:
        flying.cancel()  # a Pod that never ran must fail the asserts, not hang the test
        await asyncio.gather(flying, return_exceptions=True)
