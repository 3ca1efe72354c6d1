"""The process that owns a node: it starts all parts, and ends them when it is signalled or when a part fails.

However it ends, no other process of the node stays: the keeper ends the components, and everything else is in here. It
also owns the other nodes of the control plane.
"""

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drahealth.fakes.cluster.access import port_in
from drahealth.fakes.program.errors import CommandError
from drahealth.fakes.waiting import cancel_and_wait, run_until_first
from drahealth.suites.errors import ConfigurationError, HarnessError, full_text
from drahealth.suites.up_command.node_folder import (
    LOOK,
    Components,
    NodeFolder,
    NodeState,
    ProcessIdentity,
    read_state,
    unwritable,
    write_state,
)
from drahealth.suites.up_command.nodes import RealNode, UpNode, make_node
from drahealth.suites.up_command.options import DEFAULT_INVENTORY, FLEET_INVENTORY, UpOptions, counted

if TYPE_CHECKING:
    from drahealth.fakes.serve.settings import Settings
    from drahealth.suites.up_command.served_drivers import ServedDrivers
    from drahealth.suites.up_command.served_fleet import ServedFleet

Report = Callable[[Mapping[str, Any]], None]
"""Takes {"stage": ...} during the start, then {"ready": ...} or {"error": ..., "code": ...}."""


async def _until_ready(stack: AsyncExitStack, node: UpNode, settings: "Settings", log: Path) -> "ServedDrivers":
    """Serves the drivers of a registered node until the end of the stack; returns when all of it is ready."""
    from drahealth.suites.up_command.served_drivers import served

    drivers = await stack.enter_async_context(served(settings, log))
    await run_until_first(drivers.wait(), node.until_ready())
    await run_until_first(drivers.wait(), node.wait(), drivers.until_registered())
    return drivers


def _first_devices(settings: "Settings") -> list[list[str]]:
    """The name of each driver, with its first device."""
    return [[each.name, each.devices[0]] for each in settings.drivers]


# The other nodes of the control plane.


@dataclass(slots=True)
class OtherNode:
    """Another node: its folder with the lock, and how far it is. A node that has left has no lock."""

    folder: NodeFolder
    lock: int | None
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    asked_to_leave: asyncio.Event = field(default_factory=asyncio.Event)


class OtherNodes:
    """Runs the other nodes from `start` to `stop`, each until it fails or is asked to leave."""

    def __init__(self, nodes: Sequence[OtherNode], state: NodeState, timeline: Path | None) -> None:
        self._nodes = nodes
        self._state = state
        self._timeline = timeline
        self._first: RealNode
        self._inventory: Path
        self._tasks = set[asyncio.Task[None]]()
        self._errors = asyncio.Queue[BaseException]()

    def start(self, first: RealNode, inventory: Path) -> None:
        """Lets all of them join the control plane of the first node, whose API server answers."""
        self._first, self._inventory = first, inventory
        for one in self._nodes:
            if one.lock is not None:
                self._start(one, one.lock)

    async def until_ready(self) -> None:
        """Returns when all are Ready."""
        for one in self._nodes:
            await one.ready.wait()

    async def wait(self) -> None:
        """Waits until one fails. Raises HarnessError, CommandError."""
        raise await self._errors.get()

    async def stop(self) -> None:
        """Ends all of them."""
        await cancel_and_wait(*self._tasks)

    def look(self) -> None:
        """Ends and starts the nodes whose state files say so."""
        for one in self._nodes:
            found = read_state(one.folder.path)
            if found and found.phase == "leaving" and one.lock is not None:
                one.asked_to_leave.set()
            elif found and found.phase == "joining" and one.lock is None:
                self._join_again(one)

    def _join_again(self, one: OtherNode) -> None:
        one.lock = one.folder.lock()
        if one.lock is None:
            problem = "another process has the lock of its folder"
            write_state(one.folder.path, self._state.at("failed", problem=problem))
        else:
            self._start(one, one.lock)

    def _start(self, one: OtherNode, lock: int) -> None:
        task = asyncio.create_task(self._run(one, lock))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self._errors.put_nowait(error)

    async def _run(self, one: OtherNode, lock: int) -> None:
        try:
            async with AsyncExitStack() as stack:
                await self._serve(stack, one, self._first.join(one.folder, lock))
        except OSError as error:
            raise unwritable(one.folder.path, error) from None
        except CommandError as error:
            raise CommandError(f"node {one.folder.name}: {error}", error.code) from None
        except HarnessError as error:
            error.where = f"node {one.folder.name}"
            raise
        one.asked_to_leave.clear()
        write_state(one.folder.path, replace(self._state.at("stopped"), process=None))
        one.lock = None
        os.close(lock)

    async def _serve(self, stack: AsyncExitStack, one: OtherNode, node: UpNode) -> None:
        from drahealth.suites.up_command.served_drivers import drivers_settings

        folder = one.folder
        shutil.copyfile(self._inventory, folder.inventory)
        settings = drivers_settings(folder, node.paths, folder.inventory, self._timeline)
        stack.push_async_callback(node.stop)
        await node.start()
        await node.until_registered()
        drivers = await _until_ready(stack, node, settings, folder.logs / "driver.log")
        write_state(folder.path, self._state.at("ready", server=node.server, drivers=_first_devices(settings)))
        one.ready.set()
        await run_until_first(one.asked_to_leave.wait(), drivers.wait(), node.wait())


# All nodes of one control plane.


class Supervisor:
    """Runs the node in a locked folder, and those that join it. With `remove` the folders are removed at the end.

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
        joining: Sequence[tuple[NodeFolder, int]] = (),
        again: bool,
        remove: bool = False,
    ) -> None:
        self._folder = folder
        self._lock = lock
        self._state = replace(state, process=ProcessIdentity.own())
        self._options = options
        self._components = components
        self._report = report
        self._joining = [OtherNode(*one) for one in joining]
        self._others = OtherNodes(self._joining, self._state.of_joined(folder), options.timeline)
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
        asyncio.get_running_loop().add_signal_handler(LOOK, self._others.look)
        await run_until_first(stop.wait(), self._work())

    async def _work(self) -> None:
        folder, options = self._folder, self._options
        self._write(self._state)
        if not folder.inventory.exists():
            default = FLEET_INVENTORY if self._state.fleet else DEFAULT_INVENTORY
            folder.inventory.write_text(default, encoding="utf-8")
        async with AsyncExitStack() as stack:
            joining = [one.folder.name for one in self._joining]
            node = make_node(self._state, self._components, folder, self._lock, port_in(folder.kubeconfig), joining)
            of_nodes = f" with {counted(self._state.nodes)}" if joining else ""
            of_nodes += f" and a fleet of {counted(self._state.fleet)}" if self._state.fleet else ""
            self._report({"stage": f"Starting {self._state.title}{of_nodes}"})
            stack.push_async_callback(node.stop)
            await node.start()
            # The slow imports are here because the components, which have other processes, start meanwhile.
            from drahealth.suites.up_command.served_drivers import drivers_settings

            inventory = options.inventory or folder.inventory
            timeline = None if self._state.fleet else options.timeline
            settings = drivers_settings(folder, node.paths, inventory, timeline)
            if options.inventory:
                shutil.copyfile(options.inventory, folder.inventory)  # the next start uses it, too
            await node.until_registered()
            stack.push_async_callback(self._others.stop)
            if isinstance(node, RealNode):
                self._others.start(node, folder.inventory)
            fleet = await stack.enter_async_context(self._fleet(settings))
            drivers = await _until_ready(stack, node, settings, folder.logs / "driver.log")
            await run_until_first(self._until_others(fleet), *self._failures(drivers, node, fleet))
            self._state = self._state.at("ready", server=node.server, drivers=_first_devices(settings))
            self._state = replace(self._state, metrics=fleet.metrics if fleet else "")
            write_state(folder.path, self._state)
            self._removes = self._always_removes
            self._report({"ready": {"drivers": self._state.drivers}})
            await run_until_first(*self._failures(drivers, node, fleet))

    @asynccontextmanager
    async def _fleet(self, settings: "Settings") -> "AsyncIterator[ServedFleet | None]":
        """The fleet, which starts beside the node; None without one."""
        if not self._state.fleet:
            yield None
            return
        from drahealth.suites.up_command.served_fleet import served_fleet

        async with served_fleet(self._folder, self._state, settings, self._options) as fleet:
            yield fleet

    async def _until_others(self, fleet: "ServedFleet | None") -> None:
        """Returns when the other nodes and the fleet are Ready."""
        await self._others.until_ready()
        if fleet:
            await fleet.until_ready()

    def _failures(
        self, drivers: "ServedDrivers", node: UpNode, fleet: "ServedFleet | None"
    ) -> "Iterator[Awaitable[None]]":
        """Each waits until a part fails."""
        yield drivers.wait()
        yield node.wait()
        yield self._others.wait()
        if fleet:
            yield fleet.wait()

    def _fail(self, error: Exception) -> int:
        code = error.code if isinstance(error, CommandError) else 2 if isinstance(error, ConfigurationError) else 3
        shown = unwritable(self._folder.path, error) if isinstance(error, OSError) else error
        self._end(self._state.at("failed", problem=str(shown)))
        self._report({"error": full_text(shown), "code": code})
        return code

    def _end(self, state: NodeState) -> None:
        if self._removes:
            for folder in self._folders():
                folder.remove()
            return
        try:
            self._write(replace(state, process=None))
        except OSError:  # a full disk: the next command sees that the process has ended
            return

    def _write(self, state: NodeState) -> None:
        """Writes it for all nodes."""
        for folder in self._folders():
            write_state(folder.path, state if folder is self._folder else state.of_joined(self._folder))

    def _folders(self) -> list[NodeFolder]:
        """Those of all nodes that have not left, the first one last."""
        return [*(one.folder for one in self._joining if one.lock is not None), self._folder]
