"""A fake DRA driver: registers, publishes its devices, prepares claims, and reports device health.

It uses `kubelet_plugin`, the counterpart of the Go package kubeletplugin, with devices that can fail. It serves all
requested health APIs from one state. Commands cause each deliberate error (`control`).
"""

from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc

from drahealth.fakes.cluster.api import ListWatch
from drahealth.fakes.control.commands import (
    FAULTS,
    KINDS,
    Crash,
    Reset,
    Restart,
    Retire,
    SetHeartbeat,
    Start,
    Stop,
    StreamClose,
    StreamFault,
    StreamRestore,
    StreamSend,
    Unregister,
    Upgrade,
    WaitRegistered,
)
from drahealth.fakes.control.definition import handles
from drahealth.fakes.control.fake_options import DriverControl, DriverOptions
from drahealth.fakes.control.replies import DriverState
from drahealth.fakes.control.without_subcommand import (
    CloseEndpoint,
    FailClaims,
    FailRegistration,
    GetState,
    OpenEndpoint,
    Play,
    Report,
)
from drahealth.fakes.hardware.devices import DeviceHandlers, Devices, TaintsByHealth, driver_options
from drahealth.fakes.hardware.driver_instance import CallCounts, DriverInstance
from drahealth.fakes.hardware.instances import DriverInstances, OnStatus
from drahealth.fakes.hardware.registered import FakeNode, Registered, names_of
from drahealth.fakes.inventory.devices import Inventory
from drahealth.fakes.kubelet_plugin.health_streams import HealthStreams
from drahealth.proto import events
from drahealth.proto.clock import Clock, SystemClock
from drahealth.proto.events import Observe


class FakeDriver(DeviceHandlers, DriverControl, Registered):
    """A fake DRA driver in this process.

    Enter it with `async with`: it is registered inside, and nothing of it is left afterwards.
    docs/reference/commands.md lists its commands.
    """

    def __init__(
        self, options: DriverOptions, api: ListWatch, *, clock: Clock | None = None, observe: Observe = events.ignore
    ) -> None:
        self._api = api
        self._clock = clock or SystemClock()
        self._observe = observe
        super().__init__(Devices(options, self._clock))
        self._requests = Counter[str]()
        self._counts = CallCounts()
        self._claim_errors: dict[str, FailClaims] = {}
        self._registration_errors: dict[str, str] = {}
        self._instances = DriverInstances(options, self._clock, self._make, self._begin)
        if options.unhealthy_taint:
            self._devices.table.add(TaintsByHealth(self._devices, self._publish_later))

    @classmethod
    def for_node(
        cls,
        node: FakeNode,
        devices: Sequence[str] | Inventory = ("gpu-0",),
        *,
        name: str = "gpu.example.com",
        observe: Observe = events.ignore,
        **options: Any,
    ) -> "FakeDriver":
        """Create a driver for this node with Healthy devices. `options` are other fields of DriverOptions.

        Raises ValueError for invalid options.
        """
        folders = {"registry_dir": str(node.registry_dir), "data_dir": str(node.plugins_dir / name)}
        given: dict[str, Any] = {"name": name, "node": node.name, **folders, **options}
        if isinstance(devices, Inventory):
            made = driver_options(devices, **given)
        else:
            made = DriverOptions(devices=names_of(devices), **given)
        return cls(made, node.api, clock=node.clock, observe=observe)

    def __str__(self) -> str:
        return f"driver {self.options.name}"

    @property
    def name(self) -> str:
        """The driver's name, such as gpu.example.com."""
        return self.options.name

    @property
    def options(self) -> DriverOptions:
        """The options of the current instance."""
        return self._instances.current.options

    @property
    def health(self) -> HealthStreams:
        """The health streams of the current instance."""
        return self._instances.current.health

    @property
    def endpoint(self) -> Path:
        """The plugin's socket of the current instance."""
        return self._instances.current.endpoint

    @property
    def sockets(self) -> tuple[Path, Path]:
        """The plugin's socket and the registration socket of the current instance."""
        return self._instances.current.sockets

    @property
    def calls(self) -> Mapping[str, int]:
        """Number of calls by method path; `health.requests` counts the health streams."""
        return self._counts.calls

    # -- lifecycle

    @handles(Start)
    async def _start(self, command: Start) -> None:
        await self._instances.start()

    @handles(Stop)
    async def _stop(self, command: Stop) -> None:
        await self._end(self._instances.stop())

    @handles(Restart)
    async def _restart(self, command: Restart) -> None:
        self.options.offering(command.offer)  # raises ValueError before the stop
        await self.stop()
        self._instances.offer(command.offer)
        await self.start()

    @handles(Upgrade)
    async def _upgrade(self, command: Upgrade) -> None:
        await self._instances.upgrade(command.overlap, command.offer)

    @handles(Unregister)
    async def _unregister(self, command: Unregister) -> None:
        self._instances.unregister()

    @handles(Crash)
    async def _crash(self, command: Crash) -> None:
        await self._end(self._instances.crash())

    @handles(Retire)
    async def _retire(self, command: Retire) -> None:
        await self._end(self._instances.retire())

    @handles(WaitRegistered)
    async def _wait_registered(self, command: WaitRegistered) -> None:
        await self._instances.registered.wait()

    # -- devices

    @handles(Play)
    async def _play(self, command: Play) -> None:
        now = int(self._clock.wall())
        self._devices.table.check(command.changes)
        for change in command.changes:
            self._devices.table.set(replace(change, updated=change.updated or now), coalesces=False)

    @handles(Reset)
    async def _reset(self, command: Reset) -> None:
        self.health.clear_faults()
        self._instances.set_heartbeat(self.options.heartbeat)
        await super()._reset(command)

    # -- claims

    @handles(FailClaims)
    async def _fail_claims(self, command: FailClaims) -> None:
        self._claim_errors[command.call] = command

    @handles(FailRegistration)
    async def _fail_registration(self, command: FailRegistration) -> None:
        self._registration_errors[command.call] = command.error

    @handles(CloseEndpoint)
    async def _close_endpoint(self, command: CloseEndpoint) -> None:
        await self._instances.set_endpoint(served=False)

    @handles(OpenEndpoint)
    async def _open_endpoint(self, command: OpenEndpoint) -> None:
        await self._instances.set_endpoint(served=True)

    # -- health streams

    @handles(Report)
    async def _report(self, command: Report) -> None:
        self.health.send(command.devices, complete=False)

    @handles(*FAULTS)
    async def _fault_streams(self, command: StreamFault) -> None:
        self.health.set_fault(command.kind, command.value)

    @handles(StreamRestore)
    async def _restore_streams(self, command: StreamRestore) -> None:
        (self.health.clear_fault(command.kind) if command.kind in KINDS else self.health.clear_faults())

    @handles(StreamClose)
    async def _close_streams(self, command: StreamClose) -> None:
        self.health.end(grpc.StatusCode[command.code])

    @handles(StreamSend)
    async def _send_on_streams(self, command: StreamSend) -> None:
        self.health.send_raw(bytes.fromhex(command.payload))

    @handles(SetHeartbeat)
    async def _set_heartbeat(self, command: SetHeartbeat) -> None:
        self._instances.set_heartbeat(command.seconds)

    # -- state

    @handles(GetState)
    async def _get_state(self, query: GetState) -> DriverState:
        current = self._instances.current
        return DriverState(
            running=current.running,
            registered=self._instances.registered.is_set(),
            registration_error=current.registration_error,
            streams=sum(instance.health.open for instance in self._instances.all()),
            stream_requests=dict(self._requests),
            prepared=tuple(current.prepared.all()),
            faults=self.failing.faults(),
            taints=self._devices.taints,
            instance=current.options.instance,
            health_apis=current.options.health_apis,
            heartbeat=current.heartbeat,
            upgrading=self._instances.updating,
            stream_faults=current.health.active_faults,
        )

    # -- internals

    async def _publish(self) -> None:
        await self._instances.publish()

    def _publish_later(self) -> None:
        self._instances.publish_later()

    def _make(self, options: DriverOptions, on_status: OnStatus) -> DriverInstance:
        return DriverInstance(
            options,
            self._devices,
            self._api,
            self._clock,
            self._observe,
            on_status,
            self._requests,
            self._counts,
            self._claim_errors,
            self._registration_errors,
        )

    async def _begin(self, instance: DriverInstance) -> None:
        await instance.start()
        self.failing.resume()

    async def _end(self, ending: Coroutine[Any, Any, None]) -> None:
        """Suspends recoveries only after the driver has ended, because a cancelled start can resume them."""
        try:
            await ending
        finally:
            await self.failing.suspend()
