"""The experiments with devices: Allocate, GetPreferredAllocation and PreStartContainer."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from drahealth.proto.events import CdiSpecsRead
from drahealth.proto.extended_resources import PluginDevice, health_of
from drahealth.proto.values import Health
from drahealth.suites.checking.device_plugins.calls import PluginClient, plugin_client
from drahealth.suites.checking.device_plugins.registered import RegisteredPlugin
from drahealth.suites.checking.experiments.first_steps import known
from drahealth.suites.checking.kubelet.cdi_specs import read_specs
from drahealth.suites.checking.lab import Lab
from drahealth.suites.checking.outcomes import NotApplicable

UNKNOWN_DEVICE = "drahealth-no-such-device"
"""An ID that no plugin lists."""


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
