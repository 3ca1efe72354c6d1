"""The experiments of the registration: accepted, refused, after a restart of the kubelet, and without the socket."""

import asyncio
from collections.abc import Collection
from contextlib import AsyncExitStack

from drahealth.fakes.waiting import cancel_and_wait, in_background, poll, within
from drahealth.manager.calls import path_text
from drahealth.proto.events import RegistrationFailed, SocketRemoved
from drahealth.proto.sockets import is_served
from drahealth.suites.driver_checks.device_plugins.kubelet import (
    DevicePluginKubelet,
    RegisteredPlugin,
    listed,
    plugin_client,
)
from drahealth.suites.driver_checks.device_plugins.observed import FIRST_LIST_WAIT
from drahealth.suites.driver_checks.experiments import Incomplete, NotApplicable
from drahealth.suites.driver_checks.lab import Lab
from drahealth.suites.driver_checks.registration_experiments import (
    REFUSAL,
    SOCKET_LIMIT,
    known,
    list_sockets,
    shared,
    started,
)
from drahealth.suites.driver_checks.scripted_kubelet import ACCEPT, PAUSE

AGAIN_LIMIT = 60.0
"""Seconds in which a plugin must register after a restart of the kubelet. Some look for its socket every 10 s."""
RETRY_LIMIT = 10.0
"""Seconds in which a plugin must repeat a registration that the kubelet had to refuse."""
REMOVED_LIMIT = 30.0
"""Seconds in which a plugin must have a new socket."""
MORE_LIMIT = 2.0
"""Seconds after a registration in which the process can register another resource. Later ones are not tested."""


async def plugin_registration(lab: Lab) -> None:
    """Accepts the registration, and shares the plugin and its kubelet."""
    with shared(lab.facts.kubelet, "there is no kubelet") as fact:
        kubelet = await kubelet_of(lab)
        fact.set_result(kubelet)
    with shared(lab.facts.device_plugins, "the device plugin was not registered") as fact:
        await started(lab)
        fact.set_result(await registered_plugins(lab, kubelet, SOCKET_LIMIT))
    list_sockets(lab, "registered")


async def plugin_kubelet_restart(lab: Lab) -> None:
    """Restarts the kubelet, waits for the registration, and lists and allocates again.

    A plugin that exits is started again, as its Pod would be.
    """
    kubelet, before = await known(lab.facts.kubelet), await known(lab.facts.device_plugins)
    await kubelet.restart()
    names = [one.resource for one in before]
    for plugin in await registered_plugins(lab, kubelet, AGAIN_LIMIT, restarts=True, resources=names):
        async with listed(plugin, lab.subject.clock, lab.record) as stream:
            devices = await stream.devices(FIRST_LIST_WAIT)
        if devices:
            async with plugin_client(plugin.endpoint, plugin.resource, lab.subject.clock, lab.record) as client:
                await client.allocate([devices[-1].id])


async def refused_plugin(lab: Lab) -> None:
    """Refuses the registration, restarts the kubelet, and waits until the plugin registers again, or exits."""
    kubelet = await kubelet_of(lab)
    kubelet.answer = REFUSAL
    await started(lab)
    before = await registered_plugins(lab, kubelet, SOCKET_LIMIT)
    kubelet.answer = ACCEPT
    await kubelet.restart()
    try:
        await within(lab.subject.clock, AGAIN_LIMIT, _register_or_exit(lab, kubelet, before))
    except TimeoutError:
        return


async def removed_socket(lab: Lab) -> None:
    """Removes the sockets of the plugin, and waits until they are served again."""
    kubelet = await kubelet_of(lab)
    await started(lab)
    found = await registered_plugins(lab, kubelet, SOCKET_LIMIT)
    plugins = [one for one in found if one.way == "kubelet.sock"]
    if not plugins:
        raise NotApplicable("the plugin has a registration socket, and a kubelet does not remove this socket")
    await remove_sockets(lab, kubelet, plugins)
    list_sockets(lab, "registered")


async def remove_sockets(lab: Lab, kubelet: DevicePluginKubelet, plugins: Collection[RegisteredPlugin]) -> None:
    """Removes the sockets of registered plugins while a stream is open, and waits until they are served again."""
    async with AsyncExitStack() as stack:
        for plugin in plugins:
            stream = await stack.enter_async_context(listed(plugin, lab.subject.clock, lab.record))
            await stream.devices(FIRST_LIST_WAIT)
        kubelet.forget()  # registrations until now have nothing to do with the removal
        for plugin in plugins:
            lab.record(SocketRemoved(lab.subject.label, path_text(plugin.endpoint), plugin.resource))
            plugin.endpoint.unlink(missing_ok=True)
        try:
            await within(lab.subject.clock, REMOVED_LIMIT, _are_back(lab, kubelet, plugins))
        except TimeoutError:
            lab.subject.check_running()


async def kubelet_of(lab: Lab) -> DevicePluginKubelet:
    """A started kubelet for the process, which ends with it."""
    subject = lab.subject
    kubelet = DevicePluginKubelet(subject.label, subject.places, subject.clock, subject.record_for_all)
    subject.kept.push_async_callback(kubelet.stop)
    await kubelet.start()
    return kubelet


async def registered_plugins(
    lab: Lab, kubelet: DevicePluginKubelet, limit: float, *, restarts: bool = False, resources: Collection[str] = ()
) -> tuple[RegisteredPlugin, ...]:
    """The next registered plugin of each resource, by name. Raises Incomplete if none registers in time.

    Waits for these resources; without any, for the first one and those that follow it. `restarts`: start the plugin
    again after its exit.
    """
    clock, found = lab.subject.clock, dict[str, RegisteredPlugin]()
    waiting = asyncio.create_task(_collect(kubelet, resources, found))
    end, seen, latest = clock.now() + limit, 0, 0.0
    try:
        while clock.now() < end and not (found.keys() >= set(resources) if resources else found):
            if restarts and not lab.subject.running:
                await lab.subject.start()
            lab.subject.check_running()
            if not found and kubelet.refusal and clock.now() > kubelet.refused_at + RETRY_LIMIT:
                raise Incomplete(f"the kubelet refused the registration: {kubelet.refusal}")
            await clock.sleep(PAUSE)
        while not resources and found and (len(found) > seen or clock.now() < latest + MORE_LIMIT):
            if len(found) > seen:
                seen, latest = len(found), clock.now()
            await clock.sleep(PAUSE)
    finally:
        await cancel_and_wait(waiting)
    plugins = tuple(found[name] for name in sorted(found))
    if found and found.keys() >= set(resources):
        return plugins
    missing = f" for {', '.join(one for one in resources if one not in found)}" if found else ""
    problem = f"no device plugin registered within {limit:g} s{missing}; {_hint(lab)}"
    lab.record(RegistrationFailed(path_text(lab.subject.places.device_plugins_dir), problem))
    if not found:
        raise Incomplete(problem)
    return plugins


async def _collect(
    kubelet: DevicePluginKubelet, resources: Collection[str], found: dict[str, RegisteredPlugin]
) -> None:
    """Adds each registered plugin, until cancelled; only those of `resources`, if there are any."""
    while True:
        plugin = await kubelet.answered()
        if not resources or plugin.resource in resources:
            found[plugin.resource] = plugin


def _hint(lab: Lab) -> str:
    if lab.subject.placeholders & {"device_plugins_dir", "kubelet_dir", "registry_dir"}:
        return "the plugin must call Register at kubelet.sock in {device_plugins_dir}, or serve a registration socket"
    return "pass {device_plugins_dir} in the command line of the plugin"


async def _register_or_exit(lab: Lab, kubelet: DevicePluginKubelet, plugins: Collection[RegisteredPlugin]) -> None:
    """Returns when all resources are registered again, or the plugin has exited."""
    found = dict[str, RegisteredPlugin]()
    names = {one.resource for one in plugins}
    async with in_background(_collect(kubelet, names, found), "registrations"):
        await poll(lambda: not lab.subject.running or found.keys() >= names, PAUSE, clock=lab.subject.clock)


async def _are_back(lab: Lab, kubelet: DevicePluginKubelet, plugins: Collection[RegisteredPlugin]) -> None:
    """Returns when each plugin has registered again, or serves its socket."""
    found = dict[str, RegisteredPlugin]()

    def are_back() -> bool:
        lab.subject.check_running()
        return all(one.resource in found or is_served(one.endpoint) for one in plugins)

    async with in_background(_collect(kubelet, (), found), "registrations"):
        await poll(are_back, PAUSE, clock=lab.subject.clock)
