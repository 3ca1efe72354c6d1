"""The fleet of a control plane, in the process of its first node. Its imports are slow."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path

from drahealth.fakes.cluster.kube_client import KubeClient
from drahealth.fakes.control.fake_options import DriverOptions
from drahealth.fakes.control.news import News
from drahealth.fakes.program.json_lines import LineWriter
from drahealth.fakes.serve.playing import load_stories
from drahealth.fakes.serve.settings import Settings
from drahealth.fakes.timelines.play import Story
from drahealth.fakes.waiting import cancel_and_wait
from drahealth.proto.clock import SystemClock
from drahealth.proto.events import to_json
from drahealth.suites.fleet.driver import fleet_options
from drahealth.suites.fleet.program import Fleet, FleetSettings
from drahealth.suites.fleet.topology import fleet_names
from drahealth.suites.targets.versions import feature_gates, profile_of
from drahealth.suites.up_command.node_folder import NodeFolder, NodeState
from drahealth.suites.up_command.options import UpOptions


class ServedFleet:
    """The hollow nodes of a running fleet."""

    def __init__(self, fleet: Fleet, task: "asyncio.Task[None]") -> None:
        self._fleet = fleet
        self._task = task

    async def wait(self) -> None:
        """Waits until the fleet fails. Raises HarnessError, CommandError."""
        await asyncio.shield(self._task)

    @property
    def metrics(self) -> str:
        """The URL of the metrics; empty if none are served."""
        return self._fleet.metrics

    async def until_ready(self) -> None:
        """Returns when all nodes are Ready, and all devices are published."""
        await self._fleet.ready.wait()


@asynccontextmanager
async def served_fleet(
    folder: NodeFolder, state: NodeState, settings: Settings, options: UpOptions
) -> AsyncIterator[ServedFleet]:
    """Runs the fleet until the end of the block. The API server must answer."""
    nodes, profile = fleet_names(state.fleet, state.rack), profile_of(state.kubernetes)
    drivers = [fleet_options(each, nodes) for each in settings.drivers]
    fleet_settings = FleetSettings(
        nodes,
        drivers,
        state.kubernetes,
        profile,
        {**feature_gates(profile), **state.gates},
        folder.fleet_socket,
        _stories(options.timeline, drivers),
        options.metrics_port,
    )
    client = await KubeClient.from_kubeconfig(str(settings.kubeconfig))
    news, clock = News(), SystemClock()
    with (folder.logs / "fleet.log").open("a", encoding="utf-8") as output, closing(LineWriter(output, clock)) as lines:
        news.add(lambda event: lines.write(to_json(event)))
        bound = client.selecting("spec.nodeName!=")
        fleet = Fleet(fleet_settings, client, bound, news=news, clock=clock)
        task = asyncio.create_task(fleet.run(), name="fleet")
        try:
            yield ServedFleet(fleet, task)
        finally:
            await cancel_and_wait(task)
            await client.close()


def _stories(timeline: Path | None, drivers: Sequence[DriverOptions]) -> Sequence[Story]:
    """Those of the file, for the devices of all nodes. Raises CommandError."""
    return load_stories(timeline, drivers, (), None) if timeline else ()
