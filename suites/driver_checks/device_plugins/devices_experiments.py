"""The experiments with the devices of a device plugin: lists, Allocate, and the optional calls."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack

from drahealth.proto.events import CdiSpecsRead
from drahealth.proto.values import Health, PluginDevice, health_of
from drahealth.suites.driver_checks.cdi_specs import read_specs
from drahealth.suites.driver_checks.device_plugins.kubelet import (
    PluginClient,
    RegisteredPlugin,
    listed,
    plugin_client,
)
from drahealth.suites.driver_checks.device_plugins.observed import FIRST_LIST_WAIT
from drahealth.suites.driver_checks.experiments import UNKNOWN_DEVICE, Incomplete, NotApplicable
from drahealth.suites.driver_checks.lab import Lab
from drahealth.suites.driver_checks.registration_experiments import known, shared

# The experiments with devices: Allocate, GetPreferredAllocation and PreStartContainer.


async def allocation(lab: Lab) -> None:
    """Allocates one device twice, two devices for two containers in each order, and an unknown device.

    Reads the CDI specs afterwards, if their directory is known.
    """
    for plugin, devices in await healthy_devices(lab):
        first, last = devices[0], devices[-1]
        async with _client(lab, plugin) as client:
            await client.allocate([last])
            await client.allocate([last])
            if first != last:
                await client.allocate([first])
                await client.allocate([last], [first])
            await client.allocate([UNKNOWN_DEVICE])
    if lab.subject.knows_cdi_dir:
        lab.record(CdiSpecsRead(read_specs(*lab.subject.places.cdi_dirs)))


async def preferred_allocation(lab: Lab) -> None:
    """Asks for preferred devices, if the plugin advertises the call."""
    found = [(plugin, devices) for plugin, devices in await healthy_devices(lab) if plugin.has_preference]
    if not found:
        raise NotApplicable("the plugin does not advertise GetPreferredAllocation")
    for plugin, devices in found:
        async with _client(lab, plugin) as client:
            await client.prefer((devices, [], 1))
            await client.prefer((devices, [], len(devices)))
            if len(devices) > 1:
                await client.prefer((devices, devices[-1:], 2 if len(devices) > 2 else 1))
                for left_out in (devices[0], devices[-1]):
                    await client.prefer(([one for one in devices if one != left_out], [], 1))
                await client.prefer((devices[:1], [], 1), (devices[1:], [], 1))


async def container_start(lab: Lab) -> None:
    """Announces the start of a container, if the plugin requires it."""
    found = [(plugin, devices) for plugin, devices in await healthy_devices(lab) if plugin.wants_pre_start]
    if not found:
        raise NotApplicable("the plugin does not require PreStartContainer")
    for plugin, devices in found:
        async with _client(lab, plugin) as client:
            await client.allocate(devices[-1:])
            await client.pre_start(devices[-1:])


async def healthy_devices(lab: Lab) -> list[tuple[RegisteredPlugin, list[str]]]:
    """For each resource, the IDs of the healthy devices of its first list, each once; without resources that have none.

    Raises NotApplicable if there is no healthy device.
    """
    plugins, lists = await known(lab.facts.device_plugins), await known(lab.facts.plugin_devices)
    found = [(plugin, _healthy(lists.get(plugin.resource, ()))) for plugin in plugins]
    if not any(devices for _, devices in found):
        raise NotApplicable("the plugin lists no healthy device")
    return [(plugin, devices) for plugin, devices in found if devices]


def _healthy(listed: Sequence[PluginDevice]) -> list[str]:
    return list(dict.fromkeys(one.id for one in listed if one.id and health_of(one.health) is Health.HEALTHY))


def _client(lab: Lab, plugin: RegisteredPlugin) -> AbstractAsyncContextManager[PluginClient]:
    return plugin_client(plugin.endpoint, plugin.resource, lab.subject.clock, lab.record)


# The experiment with the ListAndWatch streams.

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
