"""The fake drivers and device plugins of a node: the program of `drahealth driver serve`, in this process.

Its imports are slow. The supervisor imports it while the API server starts.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import drahealth.fakes.cluster.kube_connection  # noqa: F401 -- otherwise the first connection imports it
from drahealth.fakes.cluster.api import DEVICE_CLASSES, ApiError
from drahealth.fakes.cluster.kube_client import KubeClient
from drahealth.fakes.control.news import News
from drahealth.fakes.program.json_lines import LineWriter
from drahealth.fakes.serve.program import Program, settings_of
from drahealth.fakes.serve.settings import Settings
from drahealth.proto.clock import SystemClock
from drahealth.proto.events import DriverEvent, DriverServed, to_json
from drahealth.suites.story.manifests import device_class
from drahealth.suites.up_command.node_folder import NodeFolder, NodePaths


def drivers_settings(folder: NodeFolder, paths: NodePaths, inventory: Path, timeline: Path | None) -> Settings:
    """The settings of the program, from an inventory and perhaps a timeline. Raises CommandError for errors there."""
    given = {
        "registry_dir": paths.registry_dir,
        "plugins_dir": paths.plugins_dir,
        "device_plugins_dir": paths.device_plugins_dir,
        "kubelet_dir": paths.kubelet_root,
        "node_name": folder.name,
        "play": timeline,
    }
    return settings_of(inventory, socket=folder.socket, kubeconfig=paths.kubeconfig, given=given)


class ServedDrivers:
    """The drivers and device plugins of a running program."""

    def __init__(self, program: Program, ready: asyncio.Event, task: "asyncio.Task[None]") -> None:
        self._program = program
        self._ready = ready
        self._task = task

    async def wait(self) -> None:
        """Waits until the program fails. Raises CommandError."""
        await asyncio.shield(self._task)

    async def until_registered(self) -> None:
        """Returns when the kubelet has registered all of them."""
        await self._ready.wait()
        for driver in self._program.drivers:
            await driver.wait_registered()
        for plugin in self._program.plugins:
            await plugin.wait_registered()


@asynccontextmanager
async def served(settings: Settings, log: Path) -> AsyncIterator[ServedDrivers]:
    """Serves them until the end of the block. Also makes a DeviceClass for each driver."""
    client = await KubeClient.from_kubeconfig(str(settings.kubeconfig))
    try:
        news, ready, stop = News(), asyncio.Event(), asyncio.Event()
        program = Program(settings, client, news, client.selecting(f"spec.nodeName={settings.node}"))

        def hear(event: DriverEvent) -> None:
            if isinstance(event, DriverServed):
                ready.set()

        with log.open("a", encoding="utf-8") as output, closing(LineWriter(output, SystemClock())) as lines:
            news.add(hear)
            news.add(lambda event: lines.write(to_json(event)))
            for driver in settings.drivers:
                await _make_class(client, driver.name)
            task = asyncio.create_task(program.run(stop))
            try:
                yield ServedDrivers(program, ready, task)
            finally:
                stop.set()
                await asyncio.wait([task])
    finally:
        await client.close()


async def _make_class(client: KubeClient, driver: str) -> None:
    try:
        await client.create(DEVICE_CLASSES, device_class(driver))
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
