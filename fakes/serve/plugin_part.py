"""The part of a device plugin in a timeline that is played beside it: what it is told, and what pods show of it."""

from typing import Any

from drahealth.fakes.hardware.device_plugin import FakeDevicePlugin
from drahealth.fakes.serve.witness import PodObserver
from drahealth.fakes.timelines.plugin_steps import PluginSteps
from drahealth.fakes.timelines.workload import HELD
from drahealth.proto.values import ResourceHealth


class PluginPart:
    """A device plugin of the file. A timeline's devices are those of its own that have the same paths."""

    def __init__(self, plugin: FakeDevicePlugin, witness: PodObserver) -> None:
        self.resource = plugin.options.resource
        self._steps = PluginSteps(plugin, plugin)
        self._inventory = plugin.options.all_devices
        self._ids = plugin.options.ids
        self._witness = witness

    async def tell(self, what: Any, device: str) -> None:
        """What a `plugin` step says. Raises ValueError for what cannot be done now, OSError."""
        await self._steps.tell(what, self._called(device) if device else ())

    async def heal(self) -> None:
        """All is well with its devices."""
        await self._steps.heal()

    def shown(self, device: str) -> list[ResourceHealth]:
        """What pods show of a device, or of its parts, under the plugin's resource."""
        return self._witness.shown(set(self._called(device)), self.resource)

    def _called(self, device: str) -> list[str]:
        """The ids of a device, or of its parts if it is divided; of all where it is what a pod holds."""
        if device == HELD:
            return list(self._ids.values())
        return [self._ids[path] for path in self._inventory.reached(device, "device") if path in self._ids]
