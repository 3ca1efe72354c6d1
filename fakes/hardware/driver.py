"""A fake DRA driver: registers, publishes its devices, prepares claims, and reports their health as it is told.

The Python counterpart of what the Go package kubeletplugin gives a driver, with devices that fail. It serves every
health API asked for from one state. What it does wrong on purpose is asked for by name (`control`).
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import grpc

from drahealth.fakes.api import ApiError, Object
from drahealth.fakes.faults.catalogue import policy
from drahealth.fakes.faults.machine import DeviceState, Machine
from drahealth.fakes.hardware import cdi
from drahealth.fakes.hardware.call_counts import CallCounts
from drahealth.fakes.hardware.control import Attempt, DriverOptions, DriverState, Taint
from drahealth.fakes.hardware.failing import FailingDevices
from drahealth.fakes.hardware.fake_plugin import FakePlugin
from drahealth.fakes.hardware.health_streams import HealthStreams, healthy
from drahealth.fakes.hardware.inventories import inventory_of
from drahealth.fakes.hardware.prepared import PreparedClaims
from drahealth.fakes.hardware.published import published_device
from drahealth.fakes.inventory import Device
from drahealth.fakes.kubelet_plugin import Helper, Options, Pool, RegistrationStatus
from drahealth.fakes.kubelet_plugin.serialization import LOCK_FILE
from drahealth.fakes.list_watch import ListWatch
from drahealth.proto import events
from drahealth.proto.clock import Clock, SystemClock
from drahealth.proto.events import Observe
from drahealth.proto.services import PREPARE
from drahealth.proto.values import DeviceHealth, Health


class FakeDriver:
    """A driver instance in this process. Implements `control.DriverControl`; see there for what the calls do."""

    def __init__(
        self, options: DriverOptions, api: ListWatch, *, clock: Clock | None = None, observe: Observe = events.ignore
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
        machine = Machine(self._inventory, options.catalogue, policy(options.policy))
        self._failing = FailingDevices(
            machine, options.devices, seed=options.seed, clock=self._clock, tell=self._report_states
        )
        self._heartbeat = options.heartbeat
        self._counts = CallCounts()
        self._plugin = FakePlugin(options, self._prepared, observe, self.health.tell_prepared)
        self._registered = asyncio.Event()
        self._registration_error = ""
        self._made_folder = False
        self._dropped: ValueError | None = None
        self._running = False
        self._helper = self._new_helper()
        self.endpoint = self._helper.options.plugin_socket

    @property
    def sockets(self) -> tuple[Path, Path]:
        """Where it is reached while it runs: the driver's own, and that of its registration."""
        return self.endpoint, self._helper.options.registration_socket

    @property
    def calls(self) -> Mapping[str, int]:
        """How often each method was called, by its path; health streams are counted by `health.asked`."""
        return self._counts.calls

    # -- control

    async def start(self) -> None:
        if self._running:
            self._helper.register_again()
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
        self._running = False
        self._registered.clear()
        self._helper.unregister()
        await self._failing.suspend()
        await self._helper.stop()

    async def unregister(self) -> None:
        self._helper.unregister()
        self._registered.clear()

    async def crash(self) -> None:
        self._running = False
        self._registered.clear()
        await self._failing.suspend()
        await self._helper.crash()

    async def retire(self) -> None:
        await self.stop()
        if self.options.cdi_dir:  # what is on the node goes, whether the API server is there or not
            cdi.remove(Path(self.options.cdi_dir), cdi.kind_of(self.options.name), self.options.instance)
        self._leave_folder()
        await self._helper.withdraw_resources()

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
            self._helper.set_heartbeat(seconds)

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

    def _pools(self) -> dict[str, Pool]:
        """What is published."""
        pools: dict[str, list[Object]] = {} if self._devices else {self.options.pool_name: []}
        for device in self._devices:
            published = published_device(device, self._taints.get(device.path, ()))
            pools.setdefault(self._pool(device), []).append(published)
        return {name: Pool(devices) for name, devices in pools.items()}

    async def _set_taints(self, taints: dict[str, tuple[Taint, ...]]) -> None:
        before, wanted = self._taints, {path: there for path, there in taints.items() if there}
        if wanted == before:
            return
        self._taints = wanted
        if not self._running:
            return
        try:
            await self._publish()
        except (ApiError, ValueError):
            self._taints = before
            self._helper.publish_resources(self._pools())
            raise

    def _report_states(self, states: Mapping[str, DeviceState]) -> None:
        """One report of all that has changed."""
        told, last_words, now = list[DeviceHealth](), list[DeviceHealth](), int(self._clock.wall())
        for path, state in states.items():
            device = self._inventory[path]
            pool = self._pool(device)
            timeout = self.health.get(pool, device.name).timeout
            said = DeviceHealth(pool, device.name, state.health, state.message, timeout, now)
            (told if state.listed else last_words).append(said)
        self.health.set(*told, last_words=last_words)

    # -- what it does

    def _enter_folder(self) -> None:
        """One with sockets was made for an instance before this one, which left it to this one or was killed."""
        folder = Path(self.options.data_dir)
        self._made_folder |= not folder.exists() or any(folder.glob("dra*.sock"))

    def _leave_folder(self) -> None:
        """Removes what it kept, and the folder that was made for it, unless another instance is still in it."""
        if not any(Path(self.options.data_dir).glob("dra*.sock")):
            self._prepared.forget()
            (Path(self.options.data_dir) / LOCK_FILE).unlink(missing_ok=True)
        if self._made_folder:
            with suppress(OSError):
                Path(self.options.data_dir).rmdir()

    async def _open(self) -> None:
        o = self.options
        self._enter_folder()
        if o.cdi_dir:
            named: dict[str, Device | None] = {device.name: device for device in self._devices}
            shared: dict[str, Device | None] = {cdi.SHARED: None} if o.shared_cdi_id else {}
            cdi.write(Path(o.cdi_dir), cdi.kind_of(o.name), o.name, o.instance, {**named, **shared})
        self._helper = self._new_helper()
        await self._publish(anew=True)
        await self._helper.start()
        self._failing.resume()

    async def _publish(self, *, anew: bool = False) -> None:
        """A driver starts without its API server too, and publishes once that is back. Raises what that refuses, and
        ValueError for what it drops without a word."""
        self._dropped = None
        self._helper.publish_resources(self._pools(), anew=anew)
        error = await self._helper.publish_attempted() or self._dropped
        if error and not (isinstance(error, ApiError) and error.status == 503):
            raise error

    def _noticed(self, error: Exception) -> None:
        if isinstance(error, ValueError):
            self._dropped = error

    def _new_helper(self) -> Helper:
        """A helper starts and stops once."""
        o = self.options
        options = Options(
            o.name,
            node_name=o.node,
            owned_by_node=False,
            api=self._api,
            registrar_dir=Path(o.registry_dir),
            plugin_data_dir=Path(o.data_dir),
            rolling_update=o.instance,
            dra_versions=tuple(version for version in o.dra_versions if version in PREPARE),
            health_apis=o.health_apis,
            served_health=o.served_health_apis,
            advertised=(*o.dra_versions, *o.health_apis),
            heartbeat=self._heartbeat,
            interceptors=(self._counts,),
            on_error=self._noticed,
            verbatim=True,
            main_pool=o.pool_name,
        )
        return Helper(self._plugin, options, clock=self._clock, health=self.health, told=self._notified)

    def _notified(self, status: RegistrationStatus) -> None:
        self._registration_error = status.error
        if status.plugin_registered:
            self._registered.set()
        o = self.options
        self._observe(events.Registered(o.name, o.instance, status.plugin_registered, status.error))
