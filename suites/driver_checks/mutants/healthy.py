"""The healthy driver that mutants are made from: small, with short heartbeats, and one method for each decision.

It is built on the parts of `kubelet_plugin`, except that its own methods answer at the wire: mutants break these.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from drahealth.fakes.cluster.api import ListWatch, Object
from drahealth.fakes.inventory import devices as cdi
from drahealth.fakes.kubelet_plugin.interface import Device, NamespacedObject, Options, PrepareResult
from drahealth.fakes.kubelet_plugin.services import NodeService
from drahealth.fakes.kubelet_plugin.slices import Owner, Pool, SliceSync
from drahealth.fakes.sockets import ServedSocket
from drahealth.proto.clock import SystemClock
from drahealth.proto.health_apis import HEALTH_APIS, NODE_HEALTH_DRAFT, HealthApi
from drahealth.proto.services import GET_INFO, NOTIFY_REGISTRATION, PREPARE, Method
from drahealth.proto.values import DeviceHealth, DeviceId, Health, PreparedDevice

DRIVER = "mutant.example.com"
CDI_KIND = cdi.kind_of(DRIVER)
OTHER = "-other"
"""Ending of the second CDI device of each device."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a driver is started with."""

    node: str
    registry_dir: Path
    data_dir: Path
    cdi_dir: Path
    api: ListWatch
    instance: str = "1"
    """Number of the instance; two of them share the directories in a rolling update."""


GAVE_UP = 7
"""Exit code of a driver that exits on purpose; 1 is an error in its code."""


def give_up(reason: str) -> NoReturn:
    """Ends the process at once; gRPC may crash if the interpreter ends while calls are open."""
    sys.stderr.write(f"{reason}\n")
    sys.stderr.flush()
    os._exit(GAVE_UP)


class Healthy:
    """A driver that meets all requirements."""

    name: ClassVar[str] = DRIVER
    devices: ClassVar[tuple[str, ...]] = ("dev-0", "dev-1", "dev-2")
    advertised: ClassVar[tuple[str, ...]] = (*PREPARE, *dict.fromkeys(api.advertised for api in HEALTH_APIS.values()))
    served: ClassVar[tuple[str, ...]] = tuple(PREPARE)
    """The served versions of the DRA service."""
    heartbeat: ClassVar[float] = 4.0
    """Seconds between reports; 0 for none."""
    change: ClassVar[float] = 9.0
    """Seconds between changes of the health of the last device; 0 for none."""
    poll: ClassVar[float] = 0.1
    """Seconds between two looks at the files of faults."""
    timeout: ClassVar[int] = 30
    taint_key: ClassVar[str] = f"{DRIVER}/unhealthy"

    def __init__(self, around: Surroundings) -> None:
        self.around = around
        self.beats = 0
        self.sick = False
        """Whether the last device is unhealthy."""
        self.faults: dict[str, DeviceHealth] = {}
        """The devices that have a file of a fault, with their health."""
        self.tainted = frozenset[str]()
        """The devices that are published with a taint: those with a file of a fault."""
        self.unlinked: dict[str, DeviceHealth] = {}
        """The devices that the backend reports as broken."""
        self.prepared: dict[str, list[Device]] = self.load()
        self.stopped = asyncio.Event()
        self._wakers: dict[asyncio.Queue[None], HealthApi] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        clock = SystemClock()
        self.slices = SliceSync(around.api, self.owner(), clock)
        socket = self.endpoint = around.data_dir / f"dra{self.ending}.sock"
        self.plugin_socket = ServedSocket(socket, socket.with_name(f".dra{self.ending}"), self.methods())
        registration = around.registry_dir / f"{self.name}{self.ending}-reg.sock"
        self.registration_socket = ServedSocket(
            registration,
            registration.with_name(f".{self.name}{self.ending}-reg"),
            {GET_INFO: self.get_info, NOTIFY_REGISTRATION: self.notified},
        )

    @property
    def ending(self) -> str:
        """The part of the names of the sockets that differs between two instances."""
        return "" if self.around.instance == "1" else f"-{self.around.instance}"

    # -- life

    async def run(self) -> None:
        """Serves until `stopped` is set."""
        await self.start()
        try:
            await self.stopped.wait()
        finally:
            await self.stop()

    async def start(self) -> None:
        """Opens the sockets, publishes, and starts to report."""
        self.write_cdi()
        await self.plugin_socket.start()
        await self.registration_socket.start()
        self.tainted = frozenset(self.read_faults())
        self.publish()
        self.spawn(self.beat())
        self.spawn(self.alternate())
        self.spawn(self.follow_faults())
        self.spawn(self.follow_taints())
        self.spawn(self.follow_backend())

    async def stop(self) -> None:
        """Ends everything, and removes the sockets."""
        for task in self._tasks:
            task.cancel()
        self.registration_socket.remove()
        await self.registration_socket.stop()
        await self.plugin_socket.stop()
        self.plugin_socket.remove()
        await self.slices.stop()

    def spawn(self, work: Any) -> None:
        """Runs a coroutine beside the others."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- registration

    def info(self) -> dict[str, Any]:
        """The fields of GetInfo."""
        endpoint = str(self.endpoint)
        return {"type": "DRAPlugin", "name": self.name, "endpoint": endpoint, "supported_versions": self.advertised}

    async def get_info(self, request: Any, context: Any) -> Any:
        return GET_INFO.response(**self.info())

    async def notified(self, request: Any, context: Any) -> Any:
        return NOTIFY_REGISTRATION.response()

    # -- ResourceSlices

    def owner(self) -> Owner:
        """Who publishes."""
        return Owner(self.name, self.around.node)

    def pools(self) -> dict[str, Pool]:
        """What is published."""
        return {self.around.node: Pool([self.published(name) for name in self.devices])}

    def published(self, device: str) -> Object:
        """A device as it is published."""
        taints = self.taints(device)
        return {"name": device, "taints": taints} if taints else {"name": device}

    def taints(self, device: str) -> list[Object]:
        """The taints of a device."""
        return [{"key": self.taint_key, "effect": "NoSchedule"}] if device in self.tainted else []

    def publish(self) -> None:
        """Publishes the devices, and keeps them published."""
        self.slices.publish(self.pools())

    # -- claims

    def methods(self) -> dict[Method, Any]:
        """The handlers at the plugin's socket."""
        options = Options(
            DRIVER,
            node_name=self.around.node,
            api=self.around.api,
            registrar_dir=self.around.registry_dir,
            plugin_data_dir=self.around.data_dir,
            dra_versions=self.served,
            verbatim=True,
        )
        functions: dict[Method, Any] = {api.method: self._serve(api) for api in HEALTH_APIS.values()}
        claim_calls = NodeService(self, options).methods()
        return functions | {method: partial(self.answer_claims, call) for method, call in claim_calls.items()}

    async def answer_claims(self, call: Any, request: Any, context: Any) -> Any:
        """Answers a NodePrepareResources or NodeUnprepareResources with `call`."""
        return await call(request, context)

    async def prepare_resource_claims(self, claims: Sequence[Object]) -> Mapping[str, PrepareResult]:
        return {claim["metadata"]["uid"]: self.prepare(claim) for claim in claims}

    async def unprepare_resource_claims(self, claims: Sequence[NamespacedObject]) -> Mapping[str, Exception | None]:
        return {claim.uid: self.unprepare(claim.uid) for claim in claims}

    def prepare(self, claim: Object) -> PrepareResult:
        """Prepares a claim, and stores it."""
        uid = claim["metadata"]["uid"]
        results = [one for one in claim["status"]["allocation"]["devices"]["results"] if one["driver"] == self.name]
        if problem := self.refusal(uid, results):
            return PrepareResult(error=ValueError(problem))
        self.prepared[uid] = [Device(one["pool"], one["device"], (one["request"],)) for one in results]
        self.save()
        self.wake(prepared_only=True)
        return PrepareResult(tuple(self.answer(uid, device) for device in self.prepared[uid]))

    def refusal(self, uid: str, results: Sequence[Object]) -> str:
        """Why a claim cannot be prepared; "" if it can."""
        held = {device.device for other, devices in self.prepared.items() if other != uid for device in devices}
        for device in (one["device"] for one in results):
            if device not in self.devices:
                return f"device {device} does not exist"
            if device in held:
                return f"device {device} is prepared for another claim"
        return ""

    def answer(self, uid: str, device: Device) -> Device:
        """What NodePrepareResources returns for a device."""
        return Device(device.pool, device.device, device.requests, self.cdi_ids(device.device))

    def cdi_ids(self, device: str) -> tuple[str, ...]:
        """The CDI device IDs of a device."""
        return (f"{CDI_KIND}={device}",)

    def unprepare(self, uid: str) -> Exception | None:
        """Unprepares a claim; returns the error."""
        self.prepared.pop(uid, None)
        self.save()
        self.wake(prepared_only=True)
        return None

    # -- files

    def write_cdi(self) -> None:
        """Writes the CDI spec, with two CDI devices for each device."""
        names = (f"{name}{ending}" for name in self.devices for ending in ("", OTHER))
        cdi.write(self.around.cdi_dir, CDI_KIND, self.name, "", dict.fromkeys(names))

    def load(self) -> dict[str, list[Device]]:
        """The prepared claims that an earlier process stored."""
        with suppress(FileNotFoundError):
            stored = json.loads((self.around.data_dir / "prepared.json").read_text())
            return {uid: [Device(pool, name, tuple(of)) for pool, name, of in found] for uid, found in stored.items()}
        return {}

    def save(self) -> None:
        """Stores the prepared claims."""
        stored = {uid: [(d.pool, d.device, d.requests) for d in devices] for uid, devices in self.prepared.items()}
        path = self.around.data_dir / "prepared.json"
        path.with_suffix(".draft").write_text(json.dumps(stored))
        path.with_suffix(".draft").replace(path)

    # -- health

    def health_of(self, device: str, api: HealthApi) -> DeviceHealth:
        """The health of a device."""
        sick = self.sick and device == self.devices[-1]
        health, message = (Health.UNHEALTHY, "too hot") if sick else (Health.HEALTHY, "")
        if fault := self.faults.get(device) or self.unlinked.get(device):
            health, message = fault.health, fault.message
        return DeviceHealth(self.around.node, device, health, message, self.timeout, self.time())

    def read_faults(self) -> dict[str, DeviceHealth]:
        """The health of each device that has a file, such as `health/dev-1` with the text `Unhealthy too hot`."""
        found = {}
        for name in self.devices:
            with suppress(FileNotFoundError):
                health, _, message = (self.around.data_dir / "health" / name).read_text().partition(" ")
                found[name] = DeviceHealth(self.around.node, name, Health(health), message)
        return found

    async def follow_faults(self) -> None:
        """Reports the devices whose files change."""
        before: dict[str, DeviceHealth] = {}
        while True:
            found = self.read_faults()
            if found != before:
                self.apply_faults(found)
            before = found
            await asyncio.sleep(self.poll)

    async def follow_taints(self) -> None:
        """Publishes the taints of the devices whose files come or go."""
        while True:
            await asyncio.sleep(self.poll)
            if (found := frozenset(self.read_faults())) != self.tainted:
                self.taint(found)

    def taint(self, devices: frozenset[str]) -> None:
        """Publishes these devices with a taint, and no others."""
        self.tainted = devices
        self.publish()

    async def follow_backend(self) -> None:
        """Reports the devices that the backend reports as broken; connects again after its end."""
        while True:
            with suppress(OSError):
                await self.read_backend()
            await asyncio.sleep(self.poll)

    async def read_backend(self) -> None:
        """Follows the backend until its end. Raises OSError if there is none."""
        reader, writer = await asyncio.open_unix_connection(self.around.data_dir / "backend.sock")
        while line := await reader.readline():
            self.unlinked = {
                name: DeviceHealth(self.around.node, name, Health.UNHEALTHY, message)
                for name, message in json.loads(line).items()
            }
            self.changed()
        writer.close()

    def apply_faults(self, found: dict[str, DeviceHealth]) -> None:
        """Takes over the health of the devices with files."""
        self.faults = found
        self.changed()

    def time(self) -> int:
        """The time of a report."""
        return int(time.time())

    def listed(self, api: HealthApi, number: int) -> list[DeviceHealth]:
        """The devices of a stream's report; `number` is 0 for its first one."""
        all_ = [self.health_of(name, api) for name in self.devices]
        if api is not NODE_HEALTH_DRAFT:
            return all_
        held = {device.device for devices in self.prepared.values() for device in devices}
        return [one for one in all_ if one.device in held]

    def held_devices(self) -> dict[tuple[str, str], PreparedDevice]:
        """The devices of prepared claims, as reports name them."""
        return {
            (device.pool, device.device): PreparedDevice(
                DeviceId(self.name, device.pool, device.device), device.requests
            )
            for devices in self.prepared.values()
            for device in devices
        }

    def message(self, api: HealthApi, number: int) -> Any:
        """A report as it is sent."""
        return api.encode(self.listed(api, number), self.held_devices())

    async def watch(self, api: HealthApi, context: Any) -> AsyncGenerator[Any, None]:
        """Streams reports: the first one at once, then one after each wake."""
        waker = asyncio.Queue[None]()
        self._wakers[waker] = api
        try:
            number = 0
            while True:
                yield self.message(api, number)
                number += 1
                await self.woken(waker, api)
        finally:
            del self._wakers[waker]

    async def woken(self, waker: "asyncio.Queue[None]", api: HealthApi) -> None:
        """Waits until the next report is due."""
        await waker.get()

    def wake(self, *, prepared_only: bool = False) -> None:
        """A report is due on all streams, or on those that list prepared devices."""
        for waker, api in self._wakers.items():
            if api.prepared_only or not prepared_only:
                waker.put_nowait(None)

    def changed(self) -> None:
        """The health of a device has changed."""
        self.wake()

    async def beat(self) -> None:
        """Sends heartbeats."""
        while self.heartbeat:
            await asyncio.sleep(self.heartbeat)
            self.beats += 1
            self.wake()

    async def alternate(self) -> None:
        """Changes the health of the last device, in the process that is watched without faults."""
        while self.change and self.around.node == "node-main":
            await asyncio.sleep(self.change)
            self.sick = not self.sick
            self.changed()

    @property
    def open_streams(self) -> int:
        """The number of open streams of all health APIs."""
        return len(self._wakers)

    def streams_of(self, api: HealthApi) -> int:
        """The number of open streams of a health API."""
        return sum(one is api for one in self._wakers.values())

    def _serve(self, api: HealthApi) -> Any:
        async def watch(request: Any, context: Any) -> AsyncGenerator[Any, None]:
            async for message in self.watch(api, context):
                yield message

        return watch
