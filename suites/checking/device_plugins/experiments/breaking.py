"""The experiment that breaks and heals devices of a device plugin."""

from collections.abc import Mapping
from contextlib import AsyncExitStack

from drahealth.proto.extended_resources import PluginDevice, health_of
from drahealth.proto.values import Health
from drahealth.suites.checking.device_plugins.experiments.registering import LIST_LIMIT, kubelet_of, next_registration
from drahealth.suites.checking.device_plugins.kubelet import DevicePluginKubelet
from drahealth.suites.checking.device_plugins.list_stream import ListStream, listed
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
    """A device plugin with an open ListAndWatch stream."""

    def __init__(self, lab: Lab, kubelet: DevicePluginKubelet, plugin: RegisteredPlugin) -> None:
        super().__init__(lab, Plugin(plugin.resource, plugin.endpoint, plugin.endpoint, ()))
        self._kubelet = kubelet
        self._device_plugin = plugin
        self._stream: ListStream | None = None
        self._opened = AsyncExitStack()

    async def open(self) -> None:
        """Opens the stream, and waits for its first list. Raises Incomplete if there is none."""
        opening = listed(self._device_plugin, self.lab.subject.clock, self.lab.record)
        self._stream = await self._opened.enter_async_context(opening)
        if await self._stream.devices(LIST_LIMIT) is None:
            raise Incomplete("the device plugin sent no list")

    async def close(self) -> None:
        """Cancels the stream."""
        await self._opened.aclose()

    async def restart(self, environment: Mapping[str, str] | None = None) -> None:
        """Ends the plugin, starts it again, and opens the stream again."""
        await self.close()
        await terminated(self.lab)
        await self.lab.subject.start(environment)
        self._device_plugin = await next_registration(self.lab, self._kubelet, SOCKET_LIMIT)
        await self.open()

    async def healthy_device(self, fault: Fault) -> Device:
        """The named device, or a healthy one that is not the first in the list. Raises Incomplete."""
        names = [one.id for one in self._latest() if fault.device in ("", one.id)]
        healthy = [name for name in names if self._health(name) is Health.HEALTHY]
        if not names:
            raise Incomplete(f"fault {fault.name}: the plugin does not list device {fault.device}")
        if not healthy:
            raise Incomplete(f"fault {fault.name}: no device is healthy before it")
        return Device("", healthy[len(healthy) // 2])

    async def lists(self, device: Device, health: Health, fault: Fault) -> bool:
        """Waits until the plugin lists the device with this health; returns whether it does in time."""
        clock = self.lab.subject.clock
        return bool(await until(clock, fault.settle + MARGIN, lambda: self._health(device.name) is health))

    def _latest(self) -> tuple[PluginDevice, ...]:
        return self._stream.latest if self._stream else ()

    def _health(self, name: str) -> Health | None:
        return next((health_of(one.health) for one in self._latest() if one.id == name), None)


async def plugin_faults(lab: Lab) -> None:
    """Breaks and heals a device with each fault of the profile, one after another."""
    kubelet = await kubelet_of(lab)
    await started(lab)
    bench = PluginBench(lab, kubelet, await next_registration(lab, kubelet, SOCKET_LIMIT))
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
