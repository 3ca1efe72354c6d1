"""The experiments with the devices of a device plugin: lists, Allocate, and faults."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack

from drahealth.fakes.waiting import poll
from drahealth.proto.events import CdiSpecsRead
from drahealth.proto.values import Health, PluginDevice, health_of
from drahealth.suites.driver_checks.cdi_specs import read_specs
from drahealth.suites.driver_checks.device_plugins.kubelet import (
    DevicePluginKubelet,
    ListStream,
    PluginClient,
    RegisteredPlugin,
    listed,
    plugin_client,
)
from drahealth.suites.driver_checks.device_plugins.observed import FIRST_LIST_WAIT
from drahealth.suites.driver_checks.device_plugins.registration_experiments import kubelet_of, registered_plugins
from drahealth.suites.driver_checks.experiments import UNKNOWN_DEVICE, Incomplete, NotApplicable
from drahealth.suites.driver_checks.faults_steps import Bench
from drahealth.suites.driver_checks.lab import Lab
from drahealth.suites.driver_checks.observed import Device
from drahealth.suites.driver_checks.profile.faults import MARGIN, Fault
from drahealth.suites.driver_checks.registration_experiments import SOCKET_LIMIT, known, shared, started, terminated
from drahealth.suites.driver_checks.scripted_kubelet import PAUSE, Plugin

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


# The experiment that breaks and heals devices of a device plugin.


class PluginBench(Bench):
    """A device plugin with an open ListAndWatch stream for each resource.

    The pool of a device is its resource, if there are several.
    """

    def __init__(self, lab: Lab, kubelet: DevicePluginKubelet, plugins: Sequence[RegisteredPlugin]) -> None:
        first = plugins[0]
        super().__init__(lab, Plugin(first.resource, first.endpoint, first.endpoint, ()))
        self._kubelet = kubelet
        self._plugins = plugins
        self._lists: dict[str, ListStream] = {}
        self._opened = AsyncExitStack()

    async def open(self) -> None:
        """Opens the streams, and waits for their first lists. Raises Incomplete if one has none."""
        for plugin in self._plugins:
            opening = listed(plugin, self.lab.subject.clock, self.lab.record)
            stream = await self._opened.enter_async_context(opening)
            if await stream.devices(FIRST_LIST_WAIT) is None:
                raise Incomplete(f"the device plugin sent no list of {plugin.resource}")
            self._lists[plugin.resource if len(self._plugins) > 1 else ""] = stream

    async def close(self) -> None:
        """Cancels the streams."""
        await self._opened.aclose()
        self._lists.clear()

    async def restart(self, environment: Mapping[str, str] | None = None) -> None:
        """Ends the plugin, starts it again, and opens the streams again."""
        await self.close()
        await terminated(self.lab)
        await self.lab.subject.start(environment)
        names = [one.resource for one in self._plugins]
        self._plugins = await registered_plugins(self.lab, self._kubelet, SOCKET_LIMIT, resources=names)
        await self.open()

    async def healthy_device(self, fault: Fault) -> Device:
        """The named device, or a healthy one that is not the first in its list. Raises Incomplete."""
        devices = [
            Device(resource, one.id)
            for resource, stream in self._lists.items()
            for one in stream.latest
            if fault.device in ("", one.id, f"{resource}/{one.id}")
        ]
        resources = dict.fromkeys(one.pool for one in devices)
        healthy = [one for one in devices if self._health(one) is Health.HEALTHY]
        if not devices:
            raise Incomplete(f"fault {fault.name}: the plugin does not list device {fault.device}")
        if fault.device and len(resources) > 1:
            names = ", ".join(resources)
            raise Incomplete(f"fault {fault.name}: {names} have device {fault.device}; name it RESOURCE/ID")
        if not healthy:
            raise Incomplete(f"fault {fault.name}: no device is healthy before it")
        same = [one for one in healthy if one.pool == healthy[0].pool]
        return same[len(same) // 2]

    async def lists(self, device: Device, health: Health, fault: Fault) -> bool:
        """Waits until the plugin lists the device with this health; returns whether it does in time."""
        limit, clock = fault.settle + MARGIN, self.lab.subject.clock
        return await poll(lambda: self._health(device) is health, PAUSE, limit, clock)

    def _health(self, device: Device) -> Health | None:
        stream = self._lists.get(device.pool)
        return next((health_of(one.health) for one in stream.latest if one.id == device.name), None) if stream else None


async def plugin_faults(lab: Lab) -> None:
    """Breaks and heals a device with each fault of the profile, one after another."""
    kubelet = await kubelet_of(lab)
    await started(lab)
    bench = PluginBench(lab, kubelet, await registered_plugins(lab, kubelet, SOCKET_LIMIT))
    try:
        await bench.open()
        for fault in sorted(lab.subject.faults, key=lambda one: one.heal == "none"):
            await _one(bench, fault)
    finally:
        await bench.close()
    lab.subject.check_running()


async def _one(bench: PluginBench, fault: Fault) -> None:
    device = await bench.healthy_device(fault)
    if await bench.breaks(fault, device):
        # A device plugin has no other word than Unhealthy for a device that is not healthy.
        await bench.lists(device, Health.HEALTHY if fault.health is Health.HEALTHY else Health.UNHEALTHY, fault)
    if await bench.heals(fault, device):
        await bench.lists(device, Health.HEALTHY, fault)
