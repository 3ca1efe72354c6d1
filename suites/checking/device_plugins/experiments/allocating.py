"""The experiments with devices: Allocate, GetPreferredAllocation and PreStartContainer."""

from contextlib import AbstractAsyncContextManager

from drahealth.proto.events import CdiSpecsRead
from drahealth.proto.extended_resources import health_of
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

    Reads the CDI specs, if their directory is known.
    """
    plugin, devices = await known(lab.facts.device_plugin), await healthy_devices(lab)
    first, last = devices[0], devices[-1]
    async with _client(lab, plugin) as client:
        await client.allocate([last])
        await client.allocate([last])
        if first != last:
            await client.allocate([first])
            await client.allocate([last], [first])
        if lab.subject.knows_cdi_dir:
            lab.record(CdiSpecsRead(read_specs(*lab.subject.places.cdi_dirs)))
        await client.allocate([UNKNOWN_DEVICE])


async def preferred_allocation(lab: Lab) -> None:
    """Asks for preferred devices, if the plugin advertises the call."""
    plugin, devices = await known(lab.facts.device_plugin), await healthy_devices(lab)
    if not plugin.has_preference:
        raise NotApplicable("the plugin does not advertise GetPreferredAllocation")
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
    plugin, devices = await known(lab.facts.device_plugin), await healthy_devices(lab)
    if not plugin.wants_pre_start:
        raise NotApplicable("the plugin does not require PreStartContainer")
    async with _client(lab, plugin) as client:
        await client.allocate(devices[-1:])
        await client.pre_start(devices[-1:])


async def healthy_devices(lab: Lab) -> list[str]:
    """The IDs of the healthy devices of the first list, each once. Raises NotApplicable if there is none."""
    listed = await known(lab.facts.plugin_devices)
    found = list(dict.fromkeys(one.id for one in listed if one.id and health_of(one.health) is Health.HEALTHY))
    if not found:
        raise NotApplicable("the plugin lists no healthy device")
    return found


def _client(lab: Lab, plugin: RegisteredPlugin) -> AbstractAsyncContextManager[PluginClient]:
    return plugin_client(plugin.endpoint, plugin.resource, lab.subject.clock, lab.record)
