"""A fake DRA driver: registers, publishes its devices, prepares claims, and reports their health as it is told.

The Python counterpart of what the Go package kubeletplugin gives a driver, with devices that fail. It serves every
health API asked for from one state. What it does wrong on purpose is asked for by name (`control`).
"""

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc

from drahealth.fakes.api import SLICES, Api, ApiError, Object
from drahealth.fakes.hardware import cdi
from drahealth.fakes.hardware.control import Attempt, DriverOptions, DriverState, Taint
from drahealth.fakes.hardware.failing import FailingDevices
from drahealth.fakes.hardware.health_streams import HealthStreams, healthy
from drahealth.fakes.hardware.inventories import inventory_of
from drahealth.fakes.hardware.node_service import NodeService
from drahealth.fakes.hardware.prepared import PreparedClaims
from drahealth.fakes.hardware.slices import Published, publish, published_device, withdraw
from drahealth.fakes.inventory import Device
from drahealth.fakes.sockets import ServedSocket
from drahealth.proto import events
from drahealth.proto.clock import Clock, SystemClock
from drahealth.proto.events import Observe
from drahealth.proto.services import GET_INFO, NOTIFY_REGISTRATION, PREPARE, Method
from drahealth.proto.values import DeviceHealth, Health

log = logging.getLogger(__name__)


class FakeDriver:
    """A driver instance in this process. Implements `control.DriverControl`; see there for what the calls do."""

    def __init__(
        self, options: DriverOptions, api: Api, *, clock: Clock | None = None, observe: Observe = events.ignore
    ) -> None:
        self.options = options
        self._api = api
        self._clock = clock or SystemClock()
        self._observe = observe
        self._inventory = inventory_of(options)
        self._devices = tuple(self._inventory[path] for path in options.devices)
        self._taints: dict[str, tuple[Taint, ...]] = {}
        devices = [healthy(self._pool(device), device.name, options.timeout) for device in self._devices]
        self._prepared = PreparedClaims(Path(options.data_dir))
        self.health = HealthStreams(
            options.name, options.instance, devices, observe, self._prepared.devices, self._clock, options.seed
        )
        self._failing = FailingDevices(options, self._inventory, self.health, self._clock)
        self._heartbeat = options.heartbeat
        self._beating: asyncio.Task[None] | None = None
        self._node_service = NodeService(options, api, self._prepared, observe, self.health.tell_prepared)
        self.calls = Counter[str]()
        """How often each method was called, by its path; health streams are counted by `health.asked`."""
        self._published = Published()
        self._unpublished = False
        self._publishing = asyncio.Lock()
        self._registered = asyncio.Event()
        self._made_folder = False
        self._registration_error = ""
        self._running = False
        self._tasks: list[asyncio.Task[None]] = []
        suffix = f"-{options.instance}" if options.instance else ""
        data, registry = Path(options.data_dir), Path(options.registry_dir)
        self.endpoint = data / f"dra{suffix}.sock"
        self._dra = ServedSocket(self.endpoint, data / f".dra{suffix}", self._dra_methods())
        self._registration = ServedSocket(
            registry / f"{options.name}{suffix}-reg.sock",
            registry / f".{options.name}{suffix}-reg",  # kubelets pass over names that begin with a dot (W-10)
            self._registration_methods(),
        )

    @property
    def sockets(self) -> tuple[Path, Path]:
        """Where it is reached while it runs: the driver's own, and that of its registration."""
        return self.endpoint, self._registration.path

    # -- control

    async def start(self) -> None:
        if self._running:
            return
        self._running = True
        self._registered.clear()
        try:
            await self._open()
        except BaseException:
            with suppress(ApiError):
                await self.retire()
            raise

    async def stop(self) -> None:
        self._registration.remove()
        await self._end()
        self._dra.remove()

    async def unregister(self) -> None:
        self._registration.remove()
        self._registered.clear()

    async def crash(self) -> None:
        await self._end()

    async def retire(self) -> None:
        await self.stop()
        if self.options.cdi_dir:  # what is on the node goes, whether the API server is there or not
            cdi.remove(Path(self.options.cdi_dir), self.options.name, self.options.instance)
        self._leave_folder()
        await withdraw(self._api, self._published)
        self._published = Published()

    async def wait_registered(self) -> None:
        await self._registered.wait()

    async def set_health(self, device: str, health: Health, message: str = "", timeout: int | None = None) -> None:
        known = self._given(device)
        pool = self._pool(known)
        old = self.health.get(pool, known.name)
        now = int(self._clock.wall())
        new = DeviceHealth(pool, known.name, health, message, old.timeout if timeout is None else timeout, now)
        self.health.set(new)

    async def play(self, changes: Sequence[DeviceHealth]) -> None:
        now = int(self._clock.wall())
        self.health.check(changes)
        for change in changes:
            self.health.set(replace(change, updated=change.updated or now), coalesces=False)

    async def report(self, devices: Sequence[DeviceHealth]) -> None:
        self.health.tell(devices, complete=False)

    async def hush(self, quiet: bool) -> None:
        self.health.quiet = quiet

    async def send_raw(self, payload: str) -> None:
        self.health.send_raw(bytes.fromhex(payload))

    async def end_streams(self, code: str = "OK") -> None:
        try:
            self.health.end(grpc.StatusCode[code])
        except KeyError:
            codes = ", ".join(c.name for c in grpc.StatusCode)
            raise ValueError(f"no gRPC status code is called {code!r}; there are {codes}") from None

    async def inject(self, fault: str, device: str) -> None:
        self._failing.inject(fault, device)

    async def clear(self, fault: str, device: str) -> None:
        self._failing.clear(fault, device)

    async def recover(
        self, action: str, device: str = "", fails: bool = False, claimed: bool = False, takes: float | None = 0.0
    ) -> Attempt:
        return self._failing.recover(action, device, fails=fails, claimed=claimed, takes=takes)

    async def taint(self, device: str, key: str, value: str = "", effect: str = "NoSchedule") -> None:
        path, taint = self._given(device).path, Taint(key, value, effect)
        kept = (other for other in self._taints.get(path, ()) if (other.key, other.effect) != (key, effect))
        await self._set_taints({**self._taints, path: (*kept, taint)})

    async def untaint(self, device: str, key: str, effect: str = "") -> None:
        path = self._given(device).path
        there = self._taints.get(path, ())
        left = tuple(taint for taint in there if taint.key != key or effect not in ("", taint.effect))
        await self._set_taints({**self._taints, path: left})

    async def heal(self) -> None:
        self.health.restore_all()
        self._failing.heal()
        await self._set_taints({})

    async def fault_streams(self, kind: str, value: float = 1.0) -> None:
        self.health.set_fault(kind, value)

    async def restore_streams(self, kind: str) -> None:
        self.health.restore(kind)

    async def set_heartbeat(self, seconds: float) -> None:
        self._heartbeat = replace(self.options, heartbeat=seconds).heartbeat  # which refuses what is none
        if self._running:
            self._beat()

    async def devices(self) -> tuple[DeviceHealth, ...]:
        return self.health.all()

    async def state(self) -> DriverState:
        return DriverState(
            running=self._running,
            registered=self._registered.is_set(),
            registration_error=self._registration_error,
            streams=self.health.open,
            asked=dict(self.health.asked),
            prepared=tuple(self._prepared.all()),
            faults=self._failing.faults(),
            taints=self._taints,
        )

    # -- its devices

    def _given(self, device: str) -> Device:
        """A device that is given away, by its path or name. Raises ValueError if there is none."""
        known = self._inventory.find(device)
        self.health.get(self._pool(known) if known else self.options.pool_name, known.name if known else device)
        return known or Device(device)

    def _pool(self, device: Device) -> str:
        return device.pool or self.options.pool_name

    def _pools(self) -> dict[str, list[Object]]:
        """What is published."""
        pools: dict[str, list[Object]] = {} if self._devices else {self.options.pool_name: []}
        for device in self._devices:
            published = published_device(device, self._taints.get(device.path, ()))
            pools.setdefault(self._pool(device), []).append(published)
        return pools

    async def _set_taints(self, taints: dict[str, tuple[Taint, ...]]) -> None:
        wanted = {path: there for path, there in taints.items() if there}
        if wanted == self._taints:
            return
        self._taints = wanted
        if self._running:
            await self._publish_unless_away()

    # -- what it does

    def _enter_folder(self) -> None:
        """One with sockets was made for an instance before this one, which left it to this one or was killed."""
        folder = Path(self.options.data_dir)
        self._made_folder |= not folder.exists() or any(folder.glob("dra*.sock"))

    def _leave_folder(self) -> None:
        """Removes what it kept, and the folder that was made for it, unless another instance is still in it."""
        if not any(Path(self.options.data_dir).glob("dra*.sock")):
            self._prepared.forget()
        if self._made_folder:
            with suppress(OSError):
                Path(self.options.data_dir).rmdir()

    async def _open(self) -> None:
        o = self.options
        self._enter_folder()
        if o.cdi_dir:
            named: dict[str, Device | None] = {device.name: device for device in self._devices}
            shared: dict[str, Device | None] = {cdi.SHARED: None} if o.shared_cdi_id else {}
            cdi.write(Path(o.cdi_dir), o.name, o.instance, {**named, **shared})
        await self._publish_unless_away()
        await self._dra.start()
        await self._registration.start()
        self._tasks = [asyncio.create_task(self._keep_published(), name=f"slices of {o.name}")]
        self._beat()
        self._failing.resume()

    async def _end(self) -> None:
        self._running = False
        tasks, self._tasks = [*self._tasks, *([self._beating] if self._beating else [])], []
        self._beating = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._failing.suspend()
        await asyncio.gather(self._registration.stop(), self._dra.stop())

    async def _keep_published(self) -> None:
        """Publishes again what somebody deletes, as a kubelet does when it starts (W-30), be it unseen."""
        while True:
            try:
                there = {slice_["metadata"]["name"] for slice_ in await self._api.list(SLICES)}
                if self._unpublished or not there.issuperset(self._published.names):
                    await self._publish()
                async for event in self._api.watch(SLICES):
                    if event.type == "DELETED" and event.object["metadata"]["name"] in self._published.names:
                        await self._publish()
            except ApiError as error:
                log.debug("slices of %s: %s", self.options.name, error)
            await self._clock.sleep(1)

    async def _publish_unless_away(self) -> None:
        """A driver starts without its API server too, and publishes once that is back."""
        self._unpublished = True
        try:
            await self._publish()
        except ApiError as error:
            if error.status != 503:
                raise
            log.warning("driver %s starts, and publishes its devices later: %s", self.options.name, error)

    async def _publish(self) -> None:
        o = self.options
        async with self._publishing:
            self._published = await publish(self._api, o.name, o.node, self._pools(), o.pool_name)
            self._unpublished = False

    def _beat(self) -> None:
        """From now on as often as it is set."""
        if self._beating:
            self._beating.cancel()
        work = self._heartbeats(self._heartbeat or math.inf)
        self._beating = asyncio.create_task(work, name=f"heartbeat of {self.options.name}")

    async def _heartbeats(self, pause: float) -> None:
        while True:
            await self._clock.sleep(pause)
            self.health.tell_all()

    def _registration_methods(self) -> dict[Method, Any]:
        return self._counted({GET_INFO: self._get_info, NOTIFY_REGISTRATION: self._notified})

    def _dra_methods(self) -> dict[Method, Any]:
        o = self.options
        versions = [version for version in o.dra_versions if version in PREPARE]
        health = self.health.methods(flavour.name for flavour in o.flavours)  # which counts by itself
        return {**self._counted(self._node_service.methods(versions)), **health}

    def _counted(self, methods: Mapping[Method, Any]) -> dict[Method, Any]:
        def count(method: Method, function: Any) -> Any:
            def call(request: Any, context: Any) -> Any:
                self.calls[method.path] += 1
                return function(request, context)

            return call

        return {method: count(method, function) for method, function in methods.items()}

    async def _get_info(self, request: Any, context: Any) -> Any:
        return GET_INFO.response(
            type="DRAPlugin",
            name=self.options.name,
            endpoint=str(self.endpoint),
            supported_versions=[*self.options.dra_versions, *self.options.health_apis],
        )

    async def _notified(self, request: Any, context: Any) -> Any:
        self._registration_error = request.error
        if request.plugin_registered:
            self._registered.set()
        o = self.options
        self._observe(events.Registered(o.name, o.instance, request.plugin_registered, request.error))
        return NOTIFY_REGISTRATION.response()
