"""Mutants that end wrongly."""

import asyncio
from typing import Any

from drahealth.suites.checking.device_plugins.mutants.healthy import HealthyPlugin
from drahealth.suites.checking.device_plugins.mutants.table import plugin_mutant
from drahealth.suites.checking.mutants.healthy import give_up

_EXITS = "plugin-exits-after-sigterm"


@plugin_mutant(_EXITS)
class PluginHangsAtTheEnd(HealthyPlugin):
    """The plugin does not exit after SIGTERM."""

    async def stop(self) -> None:
        await asyncio.Event().wait()


@plugin_mutant(_EXITS)
class PluginLeavesAChild(HealthyPlugin):
    """A child process of the plugin still runs after the plugin has exited."""

    async def start(self) -> None:
        await asyncio.create_subprocess_exec("sleep", "600")
        await super().start()


@plugin_mutant("plugin-removes-its-sockets")
class PluginLeavesItsSocket(HealthyPlugin):
    """The socket of the plugin remains after the exit of the plugin."""

    async def stop(self) -> None:
        await self.socket.stop()


@plugin_mutant("plugin-runs-until-it-is-stopped")
class ExitsAfterPreStart(HealthyPlugin):
    """The plugin exits half a second after PreStartContainer."""

    async def pre_start(self, request: Any, context: Any) -> Any:
        asyncio.get_running_loop().call_later(0.5, give_up, "the device was reset")
        return await super().pre_start(request, context)
