"""The experiments of the registration: accepted, refused, after a restart of the kubelet, and without the socket."""

import asyncio

from drahealth.manager.calls import path_text
from drahealth.proto.events import RegistrationFailed, SocketRemoved
from drahealth.proto.sockets import is_served
from drahealth.suites.checking.device_plugins.calls import plugin_client
from drahealth.suites.checking.device_plugins.kubelet import DevicePluginKubelet
from drahealth.suites.checking.device_plugins.list_stream import listed
from drahealth.suites.checking.device_plugins.registered import RegisteredPlugin
from drahealth.suites.checking.experiments.first_steps import SOCKET_LIMIT, known, shared, started
from drahealth.suites.checking.experiments.registration import REFUSAL
from drahealth.suites.checking.experiments.sockets import list_sockets
from drahealth.suites.checking.kubelet.registration import ACCEPT
from drahealth.suites.checking.kubelet.waiting import PAUSE, within
from drahealth.suites.checking.lab import Lab
from drahealth.suites.checking.outcomes import Incomplete, NotApplicable

LIST_LIMIT = 10.0
"""Seconds until a stream must have its first list."""
AGAIN_LIMIT = 60.0
"""Seconds in which a plugin must register after a restart of the kubelet. Some look for its socket every 10 s."""
RETRY_LIMIT = 5.0
"""Seconds in which a plugin must repeat a registration that the kubelet had to refuse."""
REMOVED_LIMIT = 30.0
"""Seconds in which a plugin must have a new socket."""


async def plugin_registration(lab: Lab) -> None:
    """Accepts the registration, and shares the plugin and its kubelet."""
    with shared(lab.facts.kubelet, "there is no kubelet") as fact:
        kubelet = await kubelet_of(lab)
        fact.set_result(kubelet)
    with shared(lab.facts.device_plugin, "the device plugin was not registered") as fact:
        await started(lab)
        fact.set_result(await next_registration(lab, kubelet, SOCKET_LIMIT))
    list_sockets(lab, "registered")


async def kubelet_restart(lab: Lab) -> None:
    """Restarts the kubelet, waits for the registration, and lists and allocates again.

    A plugin that exits is started again, as its Pod would be.
    """
    kubelet, before = await known(lab.facts.kubelet), await known(lab.facts.device_plugin)
    await kubelet.restart()
    plugin = await next_registration(lab, kubelet, AGAIN_LIMIT, restarts=True, resource=before.resource)
    async with listed(plugin, lab.subject.clock, lab.record) as stream:
        devices = await stream.devices(LIST_LIMIT)
    if devices:
        async with plugin_client(plugin.endpoint, plugin.resource, lab.subject.clock, lab.record) as client:
            await client.allocate([devices[-1].id])


async def refused_plugin(lab: Lab) -> None:
    """Refuses the registration, restarts the kubelet, and waits until the plugin registers again, or exits."""
    kubelet = await kubelet_of(lab)
    kubelet.answer = REFUSAL
    await started(lab)
    await next_registration(lab, kubelet, SOCKET_LIMIT)
    kubelet.answer = ACCEPT
    await kubelet.restart()
    try:
        await within(lab.subject.clock, AGAIN_LIMIT, _registers_or_exits(lab, kubelet))
    except TimeoutError:
        return


async def removed_socket(lab: Lab) -> None:
    """Removes the socket of the plugin, and waits until it is served again."""
    kubelet = await kubelet_of(lab)
    await started(lab)
    plugin = await next_registration(lab, kubelet, SOCKET_LIMIT)
    if plugin.way != "kubelet.sock":
        raise NotApplicable("the kubelet found the registration socket of the plugin, and does not remove it")
    async with listed(plugin, lab.subject.clock, lab.record) as stream:
        await stream.devices(LIST_LIMIT)
        lab.record(SocketRemoved(lab.subject.label, path_text(plugin.endpoint)))
        plugin.endpoint.unlink(missing_ok=True)
        try:
            await within(lab.subject.clock, REMOVED_LIMIT, _is_back(lab, kubelet, plugin))
        except TimeoutError:
            lab.subject.check_running()
    list_sockets(lab, "registered")


async def kubelet_of(lab: Lab) -> DevicePluginKubelet:
    """A started kubelet for the process, which ends with it."""
    subject = lab.subject
    kubelet = DevicePluginKubelet(subject.label, subject.places, subject.clock, subject.record_for_all)
    subject.kept.push_async_callback(kubelet.stop)
    await kubelet.start()
    return kubelet


async def next_registration(
    lab: Lab, kubelet: DevicePluginKubelet, limit: float, *, restarts: bool = False, resource: str = ""
) -> RegisteredPlugin:
    """The next registered plugin, of this resource if one is given. Raises Incomplete if there is none in time.

    `restarts`: start the plugin again after its exit.
    """
    waiting = asyncio.create_task(_of_resource(kubelet, resource))
    end = lab.subject.clock.now() + limit
    try:
        while not waiting.done() and lab.subject.clock.now() < end:
            if restarts and not lab.subject.running:
                await lab.subject.start()
            lab.subject.check_running()
            if kubelet.refusal and lab.subject.clock.now() > kubelet.refused_at + RETRY_LIMIT:
                raise Incomplete(f"the kubelet refused the registration: {kubelet.refusal}")
            await lab.subject.clock.sleep(PAUSE)
        if waiting.done():
            return waiting.result()
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    problem = f"no device plugin registered within {limit:g} s; {_hint(lab)}"
    lab.record(RegistrationFailed(path_text(lab.subject.places.device_plugins_dir), problem))
    raise Incomplete(problem)


async def _of_resource(kubelet: DevicePluginKubelet, resource: str) -> RegisteredPlugin:
    while True:
        plugin = await kubelet.answered()
        if resource in ("", plugin.resource):
            return plugin


def _hint(lab: Lab) -> str:
    if lab.subject.placeholders & {"device_plugins_dir", "kubelet_dir", "registry_dir"}:
        return "the plugin must call Register at kubelet.sock in {device_plugins_dir}, or serve a registration socket"
    return "pass {device_plugins_dir} in the command line of the plugin"


async def _registers_or_exits(lab: Lab, kubelet: DevicePluginKubelet) -> None:
    waiting = asyncio.create_task(kubelet.answered())
    try:
        while lab.subject.running and not waiting.done():
            await lab.subject.clock.sleep(PAUSE)
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def _is_back(lab: Lab, kubelet: DevicePluginKubelet, plugin: RegisteredPlugin) -> None:
    waiting = asyncio.create_task(kubelet.answered())
    try:
        while not waiting.done() and not is_served(plugin.endpoint):
            lab.subject.check_running()
            await lab.subject.clock.sleep(PAUSE)
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
