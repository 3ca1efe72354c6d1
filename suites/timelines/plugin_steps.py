"""What a timeline's `plugin` tells a device plugin."""

from collections.abc import Mapping, Sequence
from typing import Any

from drahealth.fakes.timelines.plan import Plan
from drahealth.proto.values import Health
from drahealth.suites.story.device_plugin import DevicePlugin


def needs_plugin(plan: Plan) -> bool:
    """Whether there is a device plugin in the story."""
    actions = (*plan.actions, *plan.always)
    return any(a.verb == "plugin" or (a.verb == "expect" and a.what.get("of") == "plugin") for a in actions)


async def tell_plugin(plugin: DevicePlugin, what: str | Mapping[str, Any], devices: Sequence[str]) -> None:
    """A word for the plugin as a whole, or what it says of these devices from now on."""
    match what:
        case "crash":
            await plugin.crashes()
        case "stop":
            await plugin.stops()
        case "running":
            if not (await plugin.control.state()).running:
                await plugin.starts()
        case "restart":
            await plugin.stops()
            await plugin.starts()
        case {"health": word}:
            for device in devices:
                await plugin.control.set_health(device, word)
        case {"listed": listed}:
            for device in devices:
                await (plugin.gpu(device).is_back() if listed else plugin.gpu(device).vanishes())


async def heal_plugin(plugin: DevicePlugin) -> None:
    """It lists all its devices, and all as Healthy."""
    listed = (await plugin.control.state()).listed
    for gpu in plugin.gpus:
        if gpu.name not in listed:
            await gpu.is_back()
        await gpu.becomes(Health.HEALTHY)
