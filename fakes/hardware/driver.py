"""A fake DRA driver: registers, publishes its devices, prepares claims, and reports device health.

It uses `kubelet_plugin`, the counterpart of the Go package kubeletplugin, with devices that can fail. It serves all
requested health APIs from one state. Commands cause each deliberate error (`control`).
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc

from drahealth.fakes.cluster.api import ApiError, ListWatch
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
    TaintDevices,
    Unregister,
    UntaintDevices,
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
    GetDevices,
    GetState,
    OpenEndpoint,
    Play,
    Report,
    SelectDevices,
    SetHealth,
)
from drahealth.fakes.hardware.devices import Devices, Taints, driver_options
from drahealth.fakes.hardware.driver_instance import CallCounts, DriverInstance
from drahealth.fakes.hardware.failing import FaultHandlers
from drahealth.fakes.hardware.instances import DriverInstances, OnStatus
from drahealth.fakes.hardware.registered import FakeNode, Registered, names_of
from drahealth.fakes.inventory.devices import Inventory
from drahealth.fakes.kubelet_plugin.health_streams import HealthStreams
from drahealth.proto import events
from drahealth.proto.clock import Clock, SystemClock
from drahealth.proto.events import Observe
from drahealth.proto.values import DeviceHealth
from drahealth.proto.values import Report as HealthReport


class FakeDriver(FaultHandlers, DriverControl, Registered):
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
        self._devices = Devices(options, self._clock)
        self.failing = self._devices.failing
        self._requests = Counter[str]()
        self._counts = CallCounts()
        self._claim_errors: dict[str, FailClaims] = {}
        self._registration_errors: dict[str, str] = {}
        self._tainting = asyncio.Lock()
        self._instances = DriverInstances(options, self._clock, self._make, self._begin)
        if options.unhealthy_taint:
            self._devices.table.add(TaintsByHealth(self._devices, self._instances.publish_later))

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

    @handles(SetHealth)
    async def _set_health(self, command: SetHealth) -> None:
        self._devices.set_health(command)

    @handles(Play)
    async def _play(self, command: Play) -> None:
        now = int(self._clock.wall())
        self._devices.table.check(command.changes)
        for change in command.changes:
            self._devices.table.set(replace(change, updated=change.updated or now), coalesces=False)

    @handles(TaintDevices)
    async def _taint(self, command: TaintDevices) -> None:
        async with self._tainting:
            await self._set_taints(self._devices.tainted(command))

    @handles(UntaintDevices)
    async def _untaint(self, command: UntaintDevices) -> Sequence[str]:
        async with self._tainting:
            left, had = self._devices.untainted(command)
            await self._set_taints(left)
        return had

    @handles(Reset)
    async def _reset(self, command: Reset) -> None:
        self.health.clear_faults()
        self._instances.set_heartbeat(self.options.heartbeat)
        self._devices.reset()
        async with self._tainting:
            await self._set_taints({})

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

    @handles(GetDevices)
    async def _get_devices(self, query: GetDevices) -> tuple[DeviceHealth, ...]:
        return self._devices.table.all()

    @handles(SelectDevices)
    async def _select(self, query: SelectDevices) -> Sequence[str]:
        return self._devices.selected(query)

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

    async def _set_taints(self, taints: dict[str, Taints]) -> None:
        """Publishes the taints; restores the previous ones after an error. The caller holds `_tainting`."""
        before, desired = self._devices.taints, {path: there for path, there in taints.items() if there}
        if desired == before:
            return
        self._devices.taints = desired
        try:
            await self._instances.publish()
        except (ApiError, ValueError):
            self._devices.taints = before
            self._instances.publish_later()
            raise

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


class TaintsByHealth:
    """Publishes the devices when one becomes Unhealthy or stops being so. It is a `HealthReporter`."""

    def __init__(self, devices: Devices, publish_later: Callable[[], None]) -> None:
        self._devices = devices
        self._publish_later = publish_later
        self._last = devices.tainted_by_health()

    def report_changes(self, changed: HealthReport, *, coalesces: bool) -> None:
        """A report of some devices."""
        self.report_all()

    def report_all(self) -> None:
        """A report of all devices."""
        now = self._devices.tainted_by_health()
        if now != self._last:
            self._last = now
            self._publish_later()
