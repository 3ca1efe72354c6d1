"""A fleet on an API server in memory, with a scheduler."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from drahealth.fakes.cluster.api import CLAIM_TEMPLATES, NAMESPACES, PODS, Object
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.cluster.mirror import until_object
from drahealth.fakes.cluster.scheduler import Scheduler
from drahealth.fakes.control.fake_options import DriverOptions
from drahealth.fakes.control.news import News
from drahealth.fakes.hardware.devices import driver_options
from drahealth.fakes.inventory.devices import Inventory
from drahealth.fakes.timelines.play import Story
from drahealth.fakes.waiting import cancel_and_wait, run_until_first
from drahealth.manager.profile import KEP
from drahealth.proto.clock import SystemClock
from drahealth.proto.events import DriverEvent, TimelineEnded
from drahealth.suites.fleet.driver import fleet_options
from drahealth.suites.fleet.program import Fleet, FleetSettings
from drahealth.suites.fleet.topology import LEASE_NAMESPACE, fleet_names
from drahealth.suites.story import manifests

DRIVER = "gpu.example.com"


def options(nodes: int, per_rack: int = 2, **more: Any) -> DriverOptions:
    """The options of a driver with two GPUs on each node of a fleet."""
    of_one = driver_options(
        Inventory.of(2), **{"name": DRIVER, "node": "node", "registry_dir": "", "data_dir": "", **more}
    )
    return fleet_options(of_one, fleet_names(nodes, per_rack))


class RunningFleet:
    """A fleet of four nodes in two racks, with two GPUs each."""

    def __init__(self, api: ApiServer, fleet: Fleet, socket: Path) -> None:
        self.api = api
        self.fleet = fleet
        self.socket = socket
        self.events = list[DriverEvent]()
        self.ended = asyncio.Event()
        """A timeline has ended."""
        fleet.news.add(self._hear)

    def _hear(self, event: DriverEvent) -> None:
        self.events.append(event)
        if isinstance(event, TimelineEnded):
            self.ended.set()

    @property
    def driver(self) -> Any:
        """Its driver."""
        return self.fleet.drivers[0]

    async def run_pods(self, count: int, devices: int = 1) -> None:
        """Creates Pods with claims from a template, and waits until they run."""
        claim = manifests.claim("default", "gpu", {"gpu": (DRIVER, devices)})
        await self.api.create(CLAIM_TEMPLATES, manifests.template(claim))
        container = {"name": "main", "image": "job", "resources": {"claims": [{"name": "gpu"}]}}
        claims = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
        for number in range(count):
            metadata = {"name": f"job-{number}", "namespace": "default"}
            await self.api.create(
                PODS, {"metadata": metadata, "spec": {"containers": [container], "resourceClaims": claims}}
            )
        for number in range(count):
            await self.until(f"job-{number}", lambda pod: pod["status"].get("phase") == "Running")

    async def until(self, name: str, true: Callable[[Object], bool]) -> None:
        """Waits until this is true of a Pod."""
        assert await until_object(self.api, PODS, lambda pod: pod["metadata"]["name"] == name and true(pod), 10)

    async def health(self) -> dict[str, list[str]]:
        """The devices that statuses show, by health."""
        found = dict[str, list[str]]()
        for pod in await self.api.list(PODS):
            for entry in pod["status"]["containerStatuses"][0].get("allocatedResourcesStatus") or ():
                for one in entry["resources"]:
                    found.setdefault(one["health"], []).append(one["resourceID"].removeprefix(f"{DRIVER}/"))
        return {health: sorted(devices) for health, devices in found.items()}


@asynccontextmanager
async def running_fleet(
    folder: Path, api: ApiServer | None = None, stories: list[Story] | None = None, **more: Any
) -> AsyncIterator[RunningFleet]:
    """A fleet that runs inside the block."""
    if api is None:
        api = ApiServer()
        await api.create(NAMESPACES, {"metadata": {"name": LEASE_NAMESPACE}})
    socket = folder / "fleet.sock"
    settings = FleetSettings(
        fleet_names(4, 2), [options(4, **more)], "1.37.2", KEP, {}, socket, stories or (), metrics_port=0
    )
    fleet = Fleet(settings, api, api, news=News(), clock=SystemClock())
    running, scheduler = RunningFleet(api, fleet, socket), Scheduler(api)
    async with AsyncExitStack() as stack:
        await scheduler.start()
        stack.push_async_callback(scheduler.stop)
        task = asyncio.create_task(fleet.run(), name="fleet")
        stack.push_async_callback(cancel_and_wait, task)
        await run_until_first(fleet.ready.wait(), asyncio.shield(task))
        yield running


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a path that is short enough for sockets."""
    found = tmp_path_factory.mktemp("f")
    found.chmod(0o700)
    return found
