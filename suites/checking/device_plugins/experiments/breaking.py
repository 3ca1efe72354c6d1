"""The experiment that breaks and heals devices of a device plugin."""

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack

from drahealth.proto.extended_resources import health_of
from drahealth.proto.values import Health
from drahealth.suites.checking.device_plugins.experiments.registering import kubelet_of, registered_plugins
from drahealth.suites.checking.device_plugins.kubelet import DevicePluginKubelet
from drahealth.suites.checking.device_plugins.list_stream import ListStream, listed
from drahealth.suites.checking.device_plugins.observed import FIRST_LIST_WAIT
from drahealth.suites.checking.device_plugins.registered import RegisteredPlugin
from drahealth.suites.checking.experiments.ending import terminated
from drahealth.suites.checking.experiments.fault_steps import Bench
from drahealth.suites.checking.experiments.first_steps import SOCKET_LIMIT, started
from drahealth.suites.checking.faults import MARGIN, Fault
from drahealth.suites.checking.kubelet.plugin import Plugin
from drahealth.suites.checking.kubelet.waiting import until
from drahealth.suites.checking.lab import Lab
from drahealth.suites.checking.observed.devices import Device
from drahealth.suites.checking.outcomes import Incomplete


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
        clock = self.lab.subject.clock
        return bool(await until(clock, fault.settle + MARGIN, lambda: self._health(device) is health))

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
        for fault in sorted(lab.subject.faults, key=lambda one: one.heals == "none"):
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
