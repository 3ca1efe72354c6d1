"""A fake DRA driver: registers, publishes its devices, prepares claims, and reports their health as it is told.

The Python counterpart of what the Go package kubeletplugin gives a driver, with devices that fail. It serves every
health API asked for from one state. What it does wrong on purpose is asked for by name (`control`).
"""

import asyncio
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc

from drahealth.fakes.cluster.api import ApiError
from drahealth.fakes.cluster.list_watch import ListWatch
from drahealth.fakes.control.driver import Attempt, DriverOptions, DriverState, Taint
from drahealth.fakes.hardware.call_counts import CallCounts
from drahealth.fakes.hardware.devices import Devices
from drahealth.fakes.hardware.driver_instance import DriverInstance
from drahealth.fakes.hardware.instances import Instances, Told
from drahealth.fakes.hardware.registered import FakeNode, Registered, names_of
from drahealth.fakes.health.streams import HealthStreams
from drahealth.proto import events
from drahealth.proto.clock import Clock, SystemClock
from drahealth.proto.events import Observe
from drahealth.proto.values import DeviceHealth, Health


class FakeDriver(Registered):
    """A fake DRA driver in this process. `DriverControl` documents its calls.

    Enter it with `async with`: it is registered inside, and nothing of it is left afterwards.
    """

    def __init__(
        self, options: DriverOptions, api: ListWatch, *, clock: Clock | None = None, observe: Observe = events.ignore
    ) -> None:
        self._api = api
        self._clock = clock or SystemClock()
        self._observe = observe
        self._devices = Devices(options, self._clock)
        self._asked = Counter[str]()
        self._counts = CallCounts()
        self._tainting = asyncio.Lock()
        self._instances = Instances(options, self._clock, self._make, self._begin)

    @classmethod
    def for_node(
        cls,
        node: FakeNode,
        devices: Sequence[str] = ("gpu-0",),
        *,
        name: str = "gpu.example.com",
        observe: Observe = events.ignore,
        **options: Any,
    ) -> "FakeDriver":
        """A driver for this node, whose devices are all Healthy; `options` are further fields of DriverOptions.

        Raises ValueError for options that no driver can have.
        """
        folders = {"registry_dir": str(node.registry_dir), "data_dir": str(node.plugins_dir / name)}
        made = DriverOptions(**{"name": name, "node": node.name, "devices": names_of(devices), **folders, **options})
        return cls(made, node.api, clock=node.clock, observe=observe)

    def __str__(self) -> str:
        return f"driver {self.options.name}"

    @property
    def options(self) -> DriverOptions:
        """Those of the instance that it is now."""
        return self._instances.current.options

    @property
    def health(self) -> HealthStreams:
        """The streams of the instance that it is now."""
        return self._instances.current.health

    @property
    def endpoint(self) -> Path:
        """Where a kubelet calls the instance that it is now."""
        return self._instances.current.endpoint

    @property
    def sockets(self) -> tuple[Path, Path]:
        """Where that is reached while it runs: the driver's own, and that of its registration."""
        return self._instances.current.sockets

    @property
    def calls(self) -> Mapping[str, int]:
        """How often each method was called, by its path; health streams are counted by `health.asked`."""
        return self._counts.calls

    # -- its life

    async def start(self) -> None:
        await self._instances.start()

    async def stop(self) -> None:
        await self._end(self._instances.stop())

    async def restart(self, offer: Sequence[str] = ()) -> None:
        self.options.offering(offer)  # raises for what there is not, while all goes on
        await self.stop()
        self._instances.offer(offer)
        await self.start()

    async def upgrade(self, overlap: float = 1.0, offer: Sequence[str] = ()) -> None:
        await self._instances.upgrade(overlap, offer)

    async def unregister(self) -> None:
        self._instances.unregister()

    async def crash(self) -> None:
        await self._end(self._instances.crash())

    async def retire(self) -> None:
        await self._end(self._instances.retire())

    async def wait_registered(self) -> None:
        await self._instances.registered.wait()

    # -- what is said

    async def set_health(self, device: str, health: Health, message: str = "", timeout: int | None = None) -> None:
        known = self._devices.find(device)
        pool = self._devices.pool_of(known)
        old = self._devices.table.get(pool, known.name)
        now = int(self._clock.wall())
        new = DeviceHealth(pool, known.name, health, message, old.timeout if timeout is None else timeout, now)
        self._devices.table.set(new)

    async def play(self, changes: Sequence[DeviceHealth]) -> None:
        now = int(self._clock.wall())
        self._devices.table.check(changes)
        for change in changes:
            self._devices.table.set(replace(change, updated=change.updated or now), coalesces=False)

    async def report(self, devices: Sequence[DeviceHealth]) -> None:
        self.health.tell(devices, complete=False)

    async def hush(self, quiet: bool) -> None:
        self.health.quiet = quiet

    async def send_raw(self, payload: str) -> None:
        try:
            message = bytes.fromhex(payload)
        except ValueError:
            raise ValueError(f"a message is given in hexadecimal, such as 0aff, not {payload[:40]!r}") from None
        self.health.send_raw(message)

    async def end_streams(self, code: str = "OK") -> None:
        try:
            self.health.end(grpc.StatusCode[code])
        except KeyError:
            codes = ", ".join(c.name for c in grpc.StatusCode)
            raise ValueError(f"no gRPC status code is called {code!r}; there are {codes}") from None

    async def inject(self, fault: str, device: str) -> None:
        self._devices.failing.inject(fault, device)

    async def clear(self, fault: str, device: str) -> None:
        self._devices.failing.clear(fault, device)

    async def recover(
        self, action: str, device: str = "", fails: bool = False, claimed: bool = False, takes: float | None = 0.0
    ) -> Attempt:
        return self._devices.failing.recover(action, device, fails=fails, claimed=claimed, takes=takes)

    async def taint(self, device: str, key: str, value: str = "", effect: str = "NoSchedule") -> None:
        path, taint = self._devices.find(device).path, Taint(key, value, effect)
        async with self._tainting:
            there = self._devices.taints.get(path, ())
            kept = (other for other in there if (other.key, other.effect) != (key, effect))
            await self._set_taints({**self._devices.taints, path: (*kept, taint)})

    async def untaint(self, device: str, key: str, effect: str = "") -> None:
        path = self._devices.find(device).path
        async with self._tainting:
            there = self._devices.taints.get(path, ())
            left = tuple(taint for taint in there if taint.key != key or effect not in ("", taint.effect))
            await self._set_taints({**self._devices.taints, path: left})

    async def heal(self) -> None:
        self.health.restore_all()
        self._devices.heal()
        async with self._tainting:
            await self._set_taints({})

    async def fault_streams(self, kind: str, value: float = 1.0) -> None:
        self.health.set_fault(kind, value)

    async def restore_streams(self, kind: str) -> None:
        self.health.restore(kind)

    async def set_heartbeat(self, seconds: float) -> None:
        self._instances.set_heartbeat(replace(self.options, heartbeat=seconds).heartbeat)  # which refuses what is none

    async def devices(self) -> tuple[DeviceHealth, ...]:
        return self._devices.table.all()

    async def state(self) -> DriverState:
        current = self._instances.current
        return DriverState(
            running=current.running,
            registered=self._instances.registered.is_set(),
            registration_error=current.registration_error,
            streams=sum(instance.health.open for instance in self._instances.all()),
            asked=dict(self._asked),
            prepared=tuple(current.prepared.all()),
            faults=self._devices.failing.faults(),
            taints=self._devices.taints,
            instance=current.options.instance,
            health_apis=current.options.health_apis,
            heartbeat=current.heartbeat,
            upgrading=self._instances.updating,
            stream_faults=current.health.wrong,
        )

    # -- inside

    async def _set_taints(self, taints: dict[str, tuple[Taint, ...]]) -> None:
        """Called by one at a time, so that what is put back after a refusal is nothing that was refused."""
        before, wanted = self._devices.taints, {path: there for path, there in taints.items() if there}
        if wanted == before:
            return
        self._devices.taints = wanted
        try:
            await self._instances.publish()
        except (ApiError, ValueError):
            self._devices.taints = before
            self._instances.publish_later()
            raise

    def _make(self, options: DriverOptions, told: Told) -> DriverInstance:
        return DriverInstance(
            options, self._devices, self._api, self._clock, self._observe, told, self._asked, self._counts
        )

    async def _begin(self, instance: DriverInstance) -> None:
        await instance.start()
        self._devices.failing.resume()

    async def _end(self, ending: Coroutine[Any, Any, None]) -> None:
        """Recoveries go on until a start that is ended has ended, too."""
        try:
            await ending
        finally:
            await self._devices.failing.suspend()
