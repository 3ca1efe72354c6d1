"""The life of a timeline's device plugin on a node."""

from dataclasses import dataclass

from drahealth.suites.story.device_plugin import DevicePlugin


@dataclass(frozen=True)
class ToldLife:
    """Implements `fakes.timelines.plugin_steps.Life`: the story tells of it, and a start is over once the plugin is
    registered."""

    plugin: DevicePlugin

    async def start(self) -> None:
        await self.plugin.starts()

    async def stop(self) -> None:
        await self.plugin.stops()

    async def crash(self) -> None:
        await self.plugin.crashes()
