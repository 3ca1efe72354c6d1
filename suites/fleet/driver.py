"""The fake driver of a fleet: one inventory over all hollow nodes, with faults and taints, and no gRPC."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from drahealth.fakes.cluster.api import ApiError
from drahealth.fakes.control.commands import WaitRegistered
from drahealth.fakes.control.definition import Command, Reply, handles
from drahealth.fakes.control.fake_options import DriverControl, DriverOptions
from drahealth.fakes.control.replies import DriverState
from drahealth.fakes.control.without_subcommand import GetState
from drahealth.fakes.hardware.devices import DeviceHandlers, Devices, TaintsByHealth, inventory_of
from drahealth.fakes.kubelet_plugin import Pool
from drahealth.fakes.kubelet_plugin.health_table import HealthTable
from drahealth.proto.clock import Clock
from drahealth.proto.values import Report
from drahealth.suites.fleet.topology import HollowNodeName


def fleet_options(options: DriverOptions, nodes: Sequence[HollowNodeName]) -> DriverOptions:
    """The options of a driver of one node, with its devices on each of these nodes."""
    inventory = inventory_of(options).on_nodes({node.name: node.attributes for node in nodes})
    count = f"{len(nodes)} hollow node{'s' * (len(nodes) != 1)}"
    return replace(options, node=count, pool="", devices=inventory.leaves, inventory=inventory.devices)


log = logging.getLogger(__name__)


class FleetDriver(DeviceHandlers, DriverControl):
    """Takes the commands of a driver about devices. The pool of a device is its node.

    `publish` writes the ResourceSlices of the pools that have changed.
    """

    def __init__(self, options: DriverOptions, clock: Clock, publish: Callable[[], Awaitable[None]]) -> None:
        self.options = options
        super().__init__(Devices(options, clock))
        self.prepared: Callable[[], tuple[str, ...]] = tuple
        """The UIDs of the prepared claims."""
        self._write_slices = publish
        self._publishing = set[asyncio.Task[None]]()
        self._names = dict[str, list[tuple[str, str]]]()
        for device in self._devices.allocatable:
            self._names.setdefault(device.pool, []).append((device.pool, device.name))
        if options.unhealthy_taint:
            self._devices.table.add(TaintsByHealth(self._devices, self._publish_later))

    @property
    def health(self) -> HealthTable:
        """The reported health of all devices."""
        return self._devices.table

    @property
    def name(self) -> str:
        """The name of the driver, such as gpu.example.com."""
        return self.options.name

    def pools(self) -> dict[str, Pool]:
        """The devices to publish, by node."""
        return self._devices.pools()

    def report_of(self, pool: str) -> Report:
        """A report with all listed devices of a node."""
        return self._devices.table.listed_among(self._names.get(pool, ()))

    def resume(self) -> None:
        """Recoveries end when they are due, from now on."""
        self.failing.resume()

    async def suspend(self) -> None:
        """Ends the tasks of the driver."""
        await self.failing.suspend()

    async def do(self, command: Command[Reply]) -> Reply:
        if type(command) not in self._handlers:
            has = sorted(known.definition.ctl for known in self.handled() if known.definition.ctl)
            raise ValueError(f"the driver of a fleet has no `{command.verb}`; it has {', '.join(has)}, set")
        return await super().do(command)

    @handles(WaitRegistered)
    async def _wait_registered(self, command: WaitRegistered) -> None:
        """A hollow node has its driver from the start."""

    @handles(GetState)
    async def _get_state(self, query: GetState) -> DriverState:
        return DriverState(
            running=True,
            registered=True,
            registration_error="",
            streams=0,
            stream_requests={},
            prepared=self.prepared(),
            faults=self.failing.faults(),
            taints=self._devices.taints,
        )

    async def _publish(self) -> None:
        await self._write_slices()

    def _publish_later(self) -> None:
        task = asyncio.create_task(self._publish_safely())
        self._publishing.add(task)
        task.add_done_callback(self._publishing.discard)

    async def _publish_safely(self) -> None:
        try:
            await self._publish()
        except ApiError as error:
            log.warning("driver %s cannot publish taints: %s", self.name, error)
