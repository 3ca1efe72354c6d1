"""The story's device plugins and their devices, told what to do in words."""

from dataclasses import dataclass

from drahealth.fakes.control.device_plugin import PluginControl, PluginOptions
from drahealth.manager.profile import Profile
from drahealth.proto.events import Registered
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
        """The name of the status entry that it stands in."""
        return self.plugin.resource

    def resource_id(self, profile: Profile) -> str:
        """What the device is called in a Pod status (KEP-4680, `ResourceID`; the same everywhere)."""
        return self.name

    async def becomes(self, health: str) -> None:
        """The device is listed so from now on."""
        await self.plugin.control.set_health(self.name, str(health))

    async def vanishes(self) -> None:
        """The device is listed no more."""
        self.plugin.node.tell(f"{self} vanishes from the list")
        await self.plugin.control.remove(self.name)

    async def is_back(self) -> None:
        """A device that vanished is listed again, as it was."""
        self.plugin.node.tell(f"{self} is listed again")
        await self.plugin.control.restore(self.name)


@dataclass(frozen=True)
class Ask:
    """How a container asks for devices of a device plugin: so many of its resource."""

    plugin: "DevicePlugin"
    count: int = 1

    @property
    def entry(self) -> str:
        """The name of the status entry that it makes."""
        return self.plugin.resource


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

    def asks(self, count: int = 1) -> Ask:
        """What a container asks for that wants so many of its devices."""
        return Ask(self, count)

    def gpu(self, name: str) -> PluginGpu:
        """Its device of that name."""
        return PluginGpu(self, name)

    async def starts(self) -> None:
        """Starts and is registered."""
        self.node.tell(f"device plugin {self} starts")
        before = self._registrations()
        await self.control.start()
        await self._is_registered_again(before)

    async def stops(self) -> None:
        """Ends in order."""
        self.node.tell(f"device plugin {self} stops")
        await self.control.stop()

    async def crashes(self) -> None:
        """Is gone at once and leaves its sockets lying."""
        self.node.tell(f"device plugin {self} crashes")
        await self.control.crash()

    async def _is_registered_again(self, before: int) -> None:
        await self.node.until(
            lambda: self._registrations() > before, "start", f"device plugin {self} is registered", "no registration"
        )

    def _registrations(self) -> int:
        mine = (self.resource, self.options.instance, True)
        return sum((e.driver, e.instance, e.ok) == mine for e in self.node.history.of(Registered))
