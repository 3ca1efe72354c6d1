"""What a timeline's `plugin` tells a fake device plugin: whether it runs, and what it says of its devices.

None of it needs a kubelet; which of its devices a step means, and what pods show of them, is the stage's.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from drahealth.fakes.control.device_plugin import PluginControl
from drahealth.fakes.timelines.plan import Action, Plan
from drahealth.proto.values import Health


class Life(Protocol):
    """How a device plugin comes and goes: its control surface, or one who tells of it as well."""

    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    async def crash(self) -> None: ...


def needs_plugin(plan: Plan) -> bool:
    """Whether there is a device plugin in the story."""
    return any(map(is_of_plugin, (*plan.actions, *plan.always)))


def is_of_plugin(action: Action) -> bool:
    """Whether it is told to the device plugin, or expected of it."""
    return action.verb == "plugin" or (action.verb == "expect" and action.what.get("of") == "plugin")


@dataclass(frozen=True)
class PluginSteps:
    """A device plugin that is told of a timeline."""

    control: PluginControl
    life: Life

    async def tell(self, what: str | Mapping[str, Any], devices: Iterable[str]) -> None:
        """A word for the plugin as a whole, or what it says from now on of the devices with these ids."""
        match what:
            case "crash":
                await self.life.crash()
            case "stop":
                await self.life.stop()
            case "running":
                if not (await self.control.state()).running:
                    await self.life.start()
            case "restart":
                await self.life.stop()
                await self.life.start()
            case {"health": word}:
                for device in devices:
                    await self.control.set_health(device, word)
            case {"listed": listed}:
                for device in devices:
                    await (self.control.restore(device) if listed else self.control.remove(device))

    async def heal(self) -> None:
        """Its devices have no faults, and it lists all of them, as Healthy."""
        await self.control.reset()
        for device in await self.control.devices():
            if device.health != Health.HEALTHY:
                await self.control.set_health(device.device, Health.HEALTHY.value)
