"""The process that owns a node: it starts all parts, and ends them when it is signalled or when a part fails.

However it ends, no other process of the node stays: the keeper ends the components, and everything else is in here.
"""

import asyncio
import os
import shutil
import signal
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from drahealth.fakes.program.errors import CommandError
from drahealth.fakes.waiting import run_until_first
from drahealth.suites.errors import ConfigurationError, HarnessError, full_text
from drahealth.suites.targets.api_servers import port_in
from drahealth.suites.up_command.node_folder import (
    Components,
    NodeFolder,
    NodeState,
    ProcessIdentity,
    unwritable,
    write_state,
)
from drahealth.suites.up_command.nodes import make_node
from drahealth.suites.up_command.options import DEFAULT_INVENTORY, UpOptions

Report = Callable[[Mapping[str, Any]], None]
"""Takes {"stage": ...} during the start, then {"ready": ...} or {"error": ..., "code": ...}."""


class Supervisor:
    """Runs the node in a locked folder. With `remove` the folder is removed at the end.

    The folder of a node that was never Ready is removed as well, unless it has data of an earlier start (`again`).
    """

    def __init__(
        self,
        folder: NodeFolder,
        lock: int,
        state: NodeState,
        options: UpOptions,
        components: Components | None,
        report: Report,
        *,
        again: bool,
        remove: bool = False,
    ) -> None:
        self._folder = folder
        self._lock = lock
        self._state = replace(state, process=ProcessIdentity.own())
        self._options = options
        self._components = components
        self._report = report
        self._removes = not again
        self._always_removes = remove and not again

    def run(self) -> int:
        """Runs until SIGTERM or SIGINT, and returns the exit code. It reports every error."""
        os.umask(0o077)
        try:
            asyncio.run(self._until_signal())
        except (HarnessError, CommandError, OSError) as error:
            return self._fail(error)
        self._end(self._state.at("stopped"))
        return 0

    async def _until_signal(self) -> None:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await run_until_first(stop.wait(), self._work())

    async def _work(self) -> None:
        folder, options = self._folder, self._options
        write_state(folder.path, self._state)
        if not folder.inventory.exists():
            folder.inventory.write_text(DEFAULT_INVENTORY, encoding="utf-8")
        async with AsyncExitStack() as stack:
            node = make_node(self._state, self._components, folder, self._lock, port_in(folder.kubeconfig))
            self._report({"stage": f"Starting {self._state.title}"})
            stack.push_async_callback(node.stop)
            await node.start()
            # The slow imports are here because the components, which have other processes, start meanwhile.
            from drahealth.suites.up_command.nodes import drivers_settings, served

            settings = drivers_settings(folder, node.paths, options.inventory or folder.inventory, options.timeline)
            if options.inventory:
                shutil.copyfile(options.inventory, folder.inventory)  # the next start uses it, too
            await node.until_registered()
            drivers = await stack.enter_async_context(served(settings, folder.logs / "driver.log"))
            await run_until_first(drivers.wait(), node.until_ready())
            await run_until_first(drivers.wait(), node.wait(), drivers.until_registered())
            drivers_of_node = [[each.name, each.devices[0]] for each in settings.drivers]
            self._state = self._state.at("ready", server=node.server, drivers=drivers_of_node)
            write_state(folder.path, self._state)
            self._removes = self._always_removes
            self._report({"ready": {"drivers": drivers_of_node}})
            await run_until_first(drivers.wait(), node.wait())

    def _fail(self, error: Exception) -> int:
        code = error.code if isinstance(error, CommandError) else 2 if isinstance(error, ConfigurationError) else 3
        shown = unwritable(self._folder.path, error) if isinstance(error, OSError) else error
        self._end(self._state.at("failed", problem=str(shown)))
        self._report({"error": full_text(shown), "code": code})
        return code

    def _end(self, state: NodeState) -> None:
        if self._removes:
            self._folder.remove()
            return
        try:
            write_state(self._folder.path, replace(state, process=None))
        except OSError:  # a full disk: the next command sees that the process has ended
            return
