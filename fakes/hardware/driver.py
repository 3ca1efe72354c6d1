"""A fake DRA driver: registers, publishes its devices, prepares claims, and reports their health as it is told.

The Python counterpart of what the Go package kubeletplugin gives a driver, with devices that fail. It serves every
health API asked for from one state. What it does wrong on purpose is asked for by name (`control`).
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc

from drahealth.fakes.api import CLAIMS, SLICES, Api, ApiError
from drahealth.fakes.hardware import cdi
from drahealth.fakes.hardware.control import DriverOptions, DriverState
from drahealth.fakes.hardware.health_streams import HealthStreams, healthy
from drahealth.fakes.hardware.prepared import PreparedClaims
from drahealth.fakes.hardware.slices import Published, publish, withdraw
from drahealth.fakes.sockets import ServedSocket
from drahealth.proto import events
from drahealth.proto.clock import Clock, SystemClock
from drahealth.proto.events import Observe
from drahealth.proto.services import GET_INFO, NOTIFY_REGISTRATION, PREPARE, UNPREPARE, Method
from drahealth.proto.values import DeviceHealth, DeviceId, Health, PreparedDevice

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
        self._pool = options.pool_name
        devices = [healthy(self._pool, name, options.timeout) for name in options.devices]
        self._prepared = PreparedClaims(Path(options.data_dir))
        self.health = HealthStreams(options.name, options.instance, devices, observe, self._prepared.devices)
        self._published = Published()
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

    async def crash(self) -> None:
        await self._end()

    async def retire(self) -> None:
        await self.stop()
        await withdraw(self._api, self._published)
        self._published = Published()
        if self.options.cdi_dir:
            cdi.remove(Path(self.options.cdi_dir), self.options.name, self.options.instance)
        self._leave_folder()

    async def wait_registered(self) -> None:
        await self._registered.wait()

    async def set_health(self, device: str, health: Health, message: str = "", timeout: int | None = None) -> None:
        old = self.health.get(self._pool, device)
        now = int(self._clock.wall())
        new = DeviceHealth(self._pool, device, health, message, old.timeout if timeout is None else timeout, now)
        self.health.set(new)

    async def play(self, changes: Sequence[DeviceHealth]) -> None:
        now = int(self._clock.wall())
        for change in changes:
            self.health.set(replace(change, updated=change.updated or now))

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

    async def state(self) -> DriverState:
        return DriverState(
            running=self._running,
            registered=self._registered.is_set(),
            registration_error=self._registration_error,
            streams=self.health.open,
            asked=dict(self.health.asked),
            prepared=tuple(self._prepared.all()),
        )

    # -- what it does

    def _enter_folder(self) -> None:
        self._made_folder |= not Path(self.options.data_dir).exists()

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
            cdi.write(Path(o.cdi_dir), o.name, o.instance, o.devices)
        await self._publish()
        await self._dra.start()
        await self._registration.start()
        self._tasks = [asyncio.create_task(self._keep_published(), name=f"slices of {o.name}")]
        if o.heartbeat:
            self._tasks.append(asyncio.create_task(self._heartbeats(), name=f"heartbeat of {o.name}"))

    async def _end(self) -> None:
        self._running = False
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(self._registration.stop(), self._dra.stop())

    async def _keep_published(self) -> None:
        """Publishes again what somebody deletes, as a kubelet does when it starts (W-30), be it unseen."""
        while True:
            try:
                there = {slice_["metadata"]["name"] for slice_ in await self._api.list(SLICES)}
                if not there.issuperset(self._published.names):
                    await self._publish()
                async for event in self._api.watch(SLICES):
                    if event.type == "DELETED" and event.object["metadata"]["name"] in self._published.names:
                        await self._publish()
            except ApiError as error:
                log.debug("slices of %s: %s", self.options.name, error)
            await self._clock.sleep(1)

    async def _publish(self) -> None:
        o = self.options
        self._published = await publish(self._api, o.name, o.node, self._pool, o.devices)

    async def _heartbeats(self) -> None:
        while True:
            await self._clock.sleep(self.options.heartbeat)
            self.health.tell_all()

    def _registration_methods(self) -> dict[Method, Any]:
        return {GET_INFO: self._get_info, NOTIFY_REGISTRATION: self._notified}

    def _dra_methods(self) -> dict[Method, Any]:
        o = self.options
        versions = [version for version in o.dra_versions if version in PREPARE]
        return {
            **{PREPARE[version]: self._prepare_with(version) for version in versions},
            **{UNPREPARE[version]: self._unprepare_with(version) for version in versions},
            **self.health.methods(flavour.name for flavour in o.flavours),
        }

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

    def _prepare_with(self, version: str) -> Any:
        method = PREPARE[version]

        async def prepare(request: Any, context: Any) -> Any:
            response = method.response()
            for claim in request.claims:
                answer = response.claims[claim.uid]
                try:
                    devices = [self._device(result) for result in await self._allocated(claim)]
                except ApiError as error:
                    answer.error = f"claim {claim.namespace}/{claim.name} cannot be read: {error}"
                    continue
                for device in devices:
                    message = answer.devices.add(**_as_message(device))
                    if device.share_id and "share_id" in message.DESCRIPTOR.fields_by_name:  # not in v1beta1
                        message.share_id = device.share_id
                self._prepared.add(claim.uid, devices)
                names = tuple(device.id.device for device in devices)
                self._observe(events.Prepared(self.options.name, self.options.instance, claim.uid, names))
            self.health.tell_prepared()
            return response

        return prepare

    def _unprepare_with(self, version: str) -> Any:
        method = UNPREPARE[version]

        async def unprepare(request: Any, context: Any) -> Any:
            response = method.response()
            for claim in request.claims:
                response.claims[claim.uid].SetInParent()
                self._prepared.drop(claim.uid)
                self._observe(events.Unprepared(self.options.name, self.options.instance, claim.uid))
            self.health.tell_prepared()
            return response

        return unprepare

    async def _allocated(self, claim: Any) -> list[dict[str, Any]]:
        """The results of the claim's allocation that are this driver's."""
        found = await self._api.get(CLAIMS, claim.name, claim.namespace)
        if found["metadata"]["uid"] != claim.uid:
            raise ApiError(404, "NotFound", f"its uid is {found['metadata']['uid']}, not {claim.uid}")
        results = found.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
        return [result for result in results if result["driver"] == self.options.name]

    def _device(self, result: dict[str, Any]) -> PreparedDevice:
        cdi_ids = (cdi.cdi_id(self.options.name, result["device"]),) if self.options.cdi_ids else ()
        name = DeviceId(self.options.name, result["pool"], result["device"])
        return PreparedDevice(name, (result["request"].split("/")[0],), cdi_ids, result.get("shareID"))


def _as_message(device: PreparedDevice) -> dict[str, Any]:
    return {
        "request_names": device.requests,
        "pool_name": device.id.pool,
        "device_name": device.id.device,
        "cdi_device_ids": device.cdi_ids,
    }
