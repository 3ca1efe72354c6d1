"""The device plugins of a scenario, and their devices."""

from dataclasses import dataclass

from drahealth.fakes.control.device_plugin import PluginControl, PluginOptions
from drahealth.manager.profile import Profile
from drahealth.proto.events import Registered
from drahealth.suites.judging.status_content import Sought
from drahealth.suites.story.context import StoryNode


@dataclass(frozen=True)
class PluginGpu:
    """One device of a fake device plugin."""

    plugin: "DevicePlugin"
    name: str

    def __str__(self) -> str:
        return f"{self.name} of {self.plugin.resource}"

    @property
    def entry(self) -> str:
        """The name of its entry in the pod status."""
        return self.plugin.resource

    def resource_id(self, profile: Profile) -> str:
        """The ID of the device in a pod status (KEP-4680, `ResourceID`). It is the same for all profiles."""
        return self.name

    def sought(self, profile: Profile) -> Sought:
        """The device, for the diagnosis of a failed check."""
        device = (self.plugin.resource, "", self.name)
        return Sought(driver=self.plugin.resource, device=device, id=self.resource_id(profile))

    async def becomes(self, health: str) -> None:
        """List the device with this health from now on."""
        await self.plugin.control.set_health(self.name, str(health))

    async def is_removed(self) -> None:
        """Remove the device from the list."""
        self.plugin.node.log(f"{self} is removed from the list")
        await self.plugin.control.remove(self.name)

    async def is_restored(self) -> None:
        """List a removed device again, with its previous health."""
        self.plugin.node.log(f"{self} is listed again")
        await self.plugin.control.restore(self.name)


@dataclass(frozen=True)
class ResourceRequest:
    """A container's request for a number of devices of a device plugin."""

    plugin: "DevicePlugin"
    count: int = 1

    @property
    def resource(self) -> str:
        """The name of the resource."""
        return self.plugin.resource

    @property
    def entry(self) -> str:
        """The name of its entry in the pod status."""
        return self.resource


class DevicePlugin:
    """A fake device plugin on the node."""

    def __init__(self, node: StoryNode, options: PluginOptions, control: PluginControl) -> None:
        self.node = node
        self.options = options
        self.control = control
        self.gpus = tuple(PluginGpu(self, name) for name in options.devices)

    def __str__(self) -> str:
        return self.resource

    @property
    def resource(self) -> str:
        return self.options.resource

    def request(self, count: int = 1) -> ResourceRequest:
        """A container's request for this number of devices."""
        return ResourceRequest(self, count)

    def gpu(self, name: str) -> PluginGpu:
        """The device with this name."""
        return PluginGpu(self, name)

    async def starts(self) -> None:
        """Start the plugin and wait until the kubelet has registered it."""
        self.node.log(f"device plugin {self} starts")
        before = self._registrations()
        await self.control.start()
        await self._is_registered_again(before)

    async def stops(self) -> None:
        """Stop the plugin gracefully."""
        self.node.log(f"device plugin {self} stops")
        await self.control.stop()

    async def registers_again(self) -> None:
        """Register the running plugin again, and wait until the kubelet has registered it."""
        self.node.log(f"device plugin {self} registers again")
        before = self._registrations()
        await self.control.register()
        await self._is_registered_again(before)

    async def list_ends(self) -> None:
        """End its ListAndWatch streams without an error. It keeps running."""
        self.node.log(f"the list of device plugin {self} ends")
        await self.control.end_lists()

    async def is_silenced(self) -> None:
        """Silence the plugin: it keeps running, and sends no lists, also none on a new stream."""
        self.node.log(f"device plugin {self} is silenced")
        await self.control.hold_lists()

    async def resumes(self) -> None:
        """End the silence: send the current list, and lists after further changes."""
        self.node.log(f"device plugin {self} sends lists again")
        await self.control.release_lists()

    async def crashes(self) -> None:
        """Kill the plugin. Its socket files remain."""
        self.node.log(f"device plugin {self} crashes")
        await self.control.crash()

    async def _is_registered_again(self, before: int) -> None:
        await self.node.until(
            lambda: self._registrations() > before,
            "start",
            f"the kubelet registers {self}",
            "no registration",
            Sought(driver=self.resource, is_registration=True),
        )

    def _registrations(self) -> int:
        mine = (self.resource, self.options.instance, True)
        return sum((e.driver, e.instance, e.ok) == mine for e in self.node.history.of(Registered))
