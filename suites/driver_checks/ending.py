"""The experiments in which the driver ends: it is terminated, or killed and started again."""

import signal
from collections.abc import Mapping

from drahealth.fakes.waiting import within
from drahealth.manager.registration import find_sockets
from drahealth.suites.driver_checks.claims import Hung, allocator, claim_calls
from drahealth.suites.driver_checks.experiment import Incomplete
from drahealth.suites.driver_checks.first_steps import SOCKET_LIMIT, described, plugin_of_process, registered
from drahealth.suites.driver_checks.lab import Lab
from drahealth.suites.driver_checks.registration import list_sockets
from drahealth.suites.driver_checks.scripted_kubelet import Plugin

KILL_LIMIT = 60.0
"""Seconds in which a killed process must be gone."""


async def end(lab: Lab) -> None:
    """Terminates the driver, after all other experiments; kills it if it does not exit."""
    lab.subject.check_running()
    await terminated(lab)
    list_sockets(lab, "ended")
    await lab.subject.children_ended()


async def driver_restart(lab: Lab) -> None:
    """Prepares a claim, kills the driver and starts it again; prepares the claim again, and unprepares it."""
    plugin = await plugin_of_process(lab)
    async with allocator(lab, plugin) as made:
        claim = await made.claim(made.shapes[0], "restart")
        try:
            async with claim_calls(lab, plugin) as calls:
                if (await calls.prepare(claim)).problem_of(claim):
                    return  # the record shows why
            async with claim_calls(lab, await restarted(lab)) as calls:
                await calls.prepare(claim)
                await calls.unprepare(claim)
        except Hung:
            return


async def restarted(lab: Lab, environment: Mapping[str, str] | None = None, *, kill: bool = True) -> Plugin:
    """The driver after an end and a start, with further variables, and registered.

    The sockets of a killed process remain, and are ignored. Without `kill` the driver gets SIGTERM, and so does one in
    a Pod: its workload is deleted, and created again.
    """
    sockets = set(find_sockets(lab.subject.places.registry_dir))
    await (killed(lab) if kill and not lab.subject.launch else terminated(lab))
    await lab.subject.start(environment)
    return await registered(lab, await described(lab, SOCKET_LIMIT, sockets))


async def terminated(lab: Lab) -> None:
    """Sends SIGTERM, and kills the driver if it does not end within its grace."""
    await lab.subject.signal(signal.SIGTERM)
    try:
        await within(lab.subject.clock, lab.grace, lab.subject.exited())
    except TimeoutError:
        await killed(lab)


async def killed(lab: Lab) -> None:
    """Kills the driver. Raises Incomplete if it does not end."""
    await lab.subject.signal(signal.SIGKILL)
    try:
        await within(lab.subject.clock, KILL_LIMIT, lab.subject.exited())
    except TimeoutError:
        raise Incomplete(f"the driver did not end within {KILL_LIMIT:g} s after SIGKILL") from None
