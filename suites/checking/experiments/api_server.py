"""The experiment with an API server that is down at the start of the driver, and later."""

from contextlib import suppress

from drahealth.fakes.waiting import first_of
from drahealth.manager.plugin import advertised_health_api
from drahealth.manager.profile import KEP
from drahealth.manager.registration import find_sockets
from drahealth.suites.checking.experiments.first_steps import SOCKET_LIMIT, described, registered
from drahealth.suites.checking.experiments.published import are_complete, watched_slices
from drahealth.suites.checking.experiments.services import call_without_claims
from drahealth.suites.checking.kubelet.plugin import Plugin
from drahealth.suites.checking.kubelet.registration import registrar
from drahealth.suites.checking.kubelet.subscriber import subscribed
from drahealth.suites.checking.lab import Lab
from drahealth.suites.checking.observed.streams import FIRST_REPORT_WAIT
from drahealth.suites.checking.outcomes import Incomplete

EARLY_LIMIT = 5.0
"""Seconds in which a driver may register without an API server; it need not."""
PUBLISH_LIMIT = 60.0
"""Seconds until it must have published its devices, once there is an API server."""
DOWN_SECONDS = 5.0
"""Seconds in which a driver notices that the API server is down; then it is called."""


async def api_server_down(lab: Lab) -> None:
    """Starts the driver without an API server, starts the API server, and stops it again.

    An exit of the driver ends the experiment: its record is what the checks judge.
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
    await _publish(lab, plugin)
    lab.subject.check_running()
    await lab.subject.set_reachable(False)
    await first_of(lab.subject.clock.sleep(DOWN_SECONDS), lab.subject.exited())
    lab.subject.check_running()
    await _call(lab, plugin)


async def _early_plugin(lab: Lab) -> Plugin | None:
    """The driver, if it registers without an API server."""
    with suppress(Incomplete):
        return await registered(lab, await described(lab, EARLY_LIMIT))
    return None


async def _publish(lab: Lab, plugin: Plugin) -> None:
    """Lists the slices once they are complete; records nothing if that is never so."""
    async with watched_slices(lab, plugin.driver) as watched:
        await first_of(watched.complete(plugin.driver, PUBLISH_LIMIT), lab.subject.exited())
        if are_complete(watched.of_driver(plugin.driver)):
            watched.list()


async def _call(lab: Lab, plugin: Plugin) -> None:
    """Calls every service of the driver."""
    clock = lab.subject.clock
    for socket in find_sockets(lab.subject.places.registry_dir):
        if socket.path == plugin.socket:
            async with registrar(socket, clock, lab.record) as calls:
                await calls.get_info()
    for api in advertised_health_api(plugin.versions, KEP)[:1]:
        async with subscribed(plugin, api, clock, lab.record) as stream:
            await stream.reported(FIRST_REPORT_WAIT)
    await call_without_claims(lab, plugin)
