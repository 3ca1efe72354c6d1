"""The device plugins of a play: they start, list devices, and stop."""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from typing import assert_never

from drahealth.fakes.control.device_plugin import PluginControl, PluginOptions
from drahealth.proto.events import DevicesListed, Record
from drahealth.suites.differential.lane import Lane, poll
from drahealth.suites.differential.script import EndList, Held, ListDevices, PluginStep, Script, StartPlugin, StopPlugin
from drahealth.suites.errors import HarnessError

START = 60.0
"""Seconds until a driver or a device plugin is surely registered, and a Pod has its devices."""

Instance = tuple[int, int]


class PluginPlayer:
    """The device plugins of one play. `key` makes their resources unique on the target."""

    def __init__(self, lane: Lane, script: Script, key: str) -> None:
        self._target = lane.target
        self._history = lane.history
        self._script = script
        self._key = key
        self._instances: dict[Instance, PluginControl] = {}
        self._running: set[Instance] = set()
        self._lists: Counter[Instance] = Counter()
        self._allocations: Counter[int] = Counter()

    @property
    def names(self) -> dict[str, str]:
        """The names in the script, by the names on the target."""
        return {self._domain(number): f"plugin-{number}" for number in range(len(self._script.plugins))}

    def limits(self, held: Iterable[Held]) -> dict[str, str]:
        """The limits of a container that requests these devices."""
        return {self._resource(use.plugin): str(use.count) for use in held}

    async def start(self) -> None:
        """Start the first instance of each plugin."""
        for number in range(len(self._script.plugins)):
            await self._start((number, 0))

    async def run_step(self, step: PluginStep) -> None:
        """Run a step, until the kubelet has its list or the end of it."""
        instance = (step.plugin, step.instance)
        match step:
            case ListDevices():
                await self._list(instance, {listed.device: listed.health for listed in step.devices})
            case EndList():
                await self._instances[instance].end_lists()
            case StartPlugin():
                await self._start(instance)
            case StopPlugin():
                self._running.discard(instance)
                await self._instances[instance].stop()
            case unhandled:
                assert_never(unhandled)

    async def wait_for_allocations(self, pod: int) -> None:
        """Wait until the new pod holds its devices, so that each play allocates the same ones. Raises HarnessError."""
        for container in self._script.pods[pod].containers:
            self._allocations.update(use.plugin for use in container if isinstance(use, Held))
        if not await poll(self._have_allocated, START):
            raise HarnessError(
                f"the kubelet allocated no devices of a device plugin within {START:g} s",
                await self._target.log_tail(),
            )

    def lists_sent(self) -> Mapping[Instance, int]:
        """The number of lists that each running plugin has sent."""
        return {instance: self._lists[instance] for instance in self._running}

    async def wait_for_lists(self, before: Mapping[Instance, int]) -> None:
        """Wait until each of these plugins has sent another list. Raises HarnessError."""
        for (plugin, number), sent in before.items():
            if not await self._history.until(partial(self._has_sent_more, (plugin, number), sent), START):
                raise HarnessError(
                    f"the kubelet asked device plugin {plugin} for no list within {START:g} s",
                    await self._target.log_tail(),
                )

    async def drop(self) -> None:
        """Stop all plugins."""
        for control in self._instances.values():
            await control.retire()
            await self._target.drop_driver(control)

    async def _start(self, instance: Instance) -> None:
        if instance not in self._instances:
            options, observe = self._options(instance), partial(self._observed, instance)
            self._instances[instance] = await self._target.start_device_plugin(options, observe)
        before = {instance: self._lists[instance]}
        await self._instances[instance].start()
        self._running.add(instance)
        await self.wait_for_lists(before)

    async def _list(self, instance: Instance, health: Mapping[str, str]) -> None:
        """Send one list, with all changes."""
        control = self._instances[instance]
        known = {device.device: device for device in await control.devices()}
        before = {instance: self._lists[instance]}
        await control.hold_lists()
        for name, device in known.items():
            if device.listed and name not in health:
                await control.remove(name)
            elif not device.listed and name in health:
                await control.restore(name)
            if name in health:
                await control.set_health(name, health[name])
        await control.release_lists()
        if (await control.state()).streams:
            await self.wait_for_lists(before)

    async def _have_allocated(self) -> bool:
        states = {number: await self._instances[number, 0].state() for number in self._allocations}
        return all(states[number].allocations >= count for number, count in self._allocations.items())

    def _has_sent_more(self, instance: Instance, before: int) -> bool:
        return self._lists[instance] > before

    def _observed(self, instance: Instance, record: Record) -> None:
        self._lists[instance] += isinstance(record.what, DevicesListed)
        self._history.add(record)

    def _options(self, instance: Instance) -> PluginOptions:
        number, side = instance
        plugin = self._script.plugins[number]
        return PluginOptions(
            resource=self._resource(number),
            devices=plugin.devices,
            plugins_dir=str(self._target.device_plugins_dir),
            registry_dir=str(self._target.registry_dir),
            data_dir=str(self._target.plugins_dir / f"{self._key}-plugin-{number}"),
            registration="plugins_registry" if plugin.directory else "kubelet.sock",
            instance="b" if side else "",
            preferred=plugin.devices,  # otherwise the kubelet chooses at random
        )

    def _domain(self, number: int) -> str:
        return f"p{number}-{self._key}.example.com"

    def _resource(self, number: int) -> str:
        return f"{self._domain(number)}/gpu"
