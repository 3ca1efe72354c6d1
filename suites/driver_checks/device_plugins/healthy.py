"""The healthy device plugin that mutants are made from: one method for each decision."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import grpc
import grpc.aio

from drahealth.fakes.sockets import ServedSocket
from drahealth.fakes.waiting import cancel_and_wait
from drahealth.proto.services import (
    ALLOCATE,
    GET_OPTIONS,
    GET_PREFERRED_ALLOCATION,
    KUBELET_SOCKET,
    LIST_AND_WATCH,
    PRE_START_CONTAINER,
    REGISTER,
    VERSION,
    Method,
)
from drahealth.proto.sockets import target
from drahealth.proto.values import Health
from drahealth.suites.driver_checks.mutants.table import mutant

# The decorator for mutants that are device plugins.

plugin_mutant = partial(mutant, subject="device-plugin")
"""Registers a class as a mutant that is a device plugin."""


# The healthy device plugin that mutants are made from: one method for each decision.

RESOURCE = "example.com/mutant"
_LOOK = 0.25
_REGISTER_LIMIT = 20.0


class HealthyPlugin:
    """A device plugin that meets all requirements."""

    resource: ClassVar[str] = RESOURCE
    name: ClassVar[str] = "mutant"
    """Name of its files."""
    cdi_kind: ClassVar[str] = RESOURCE
    version: ClassVar[str] = VERSION
    devices: ClassVar[tuple[str, ...]] = ("dev-0", "dev-1", "dev-2")
    options: ClassVar[dict[str, bool]] = {"pre_start_required": True, "get_preferred_allocation_available": True}
    change: ClassVar[float] = 3.0
    """Seconds between changes of the health of the last device while a stream is open; 0 for none."""

    def __init__(self, folder: Path, data_dir: Path, cdi_dir: Path) -> None:
        """`folder` has the kubelet's socket. A device with a file in `health` or `links` of `data_dir` is broken."""
        self.health_dir, self.links_dir = data_dir / "health", data_dir / "links"
        self.make_dirs()
        self.cdi_dir = cdi_dir
        self.broken: frozenset[str] = frozenset()
        self.was_broken = False
        """Whether a device was ever broken from outside: then the plugin no longer changes any by itself."""
        self.kubelet = folder / KUBELET_SOCKET
        self.path = folder / f"{self.name}.sock"
        self.stopped = asyncio.Event()
        self.sick = False
        """Whether the last device is unhealthy."""
        self.streams = 0
        """Number of ListAndWatch streams that were ever opened."""
        self.wakers: set[asyncio.Queue[None]] = set()
        self.socket = ServedSocket(self.path, self.path.with_name(f".{self.name}"), self.methods())
        self._tasks: set[asyncio.Task[None]] = set()

    # -- life

    async def run(self) -> None:
        """Serves until `stopped` is set."""
        await self.start()
        try:
            await self.stopped.wait()
        finally:
            await self.stop()

    async def start(self) -> None:
        """Opens the socket, writes the CDI spec, and registers."""
        self.make_dirs()
        await self.socket.start()
        self.write_cdi_spec()
        self.spawn(self.keep_registered())
        self.spawn(self.alternate())
        self.spawn(self.watch_health())

    def make_dirs(self) -> None:
        """Makes the folders of broken devices: fault adapters make none."""
        for folder in (self.health_dir, self.links_dir):
            folder.mkdir(parents=True, exist_ok=True)

    async def stop(self) -> None:
        """Ends everything, and removes the socket."""
        await cancel_and_wait(*self._tasks)
        self.socket.remove()
        await self.socket.stop()

    def spawn(self, work: Any) -> None:
        """Runs a coroutine beside the others."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- registration

    async def keep_registered(self) -> None:
        """Registers with each new kubelet, and after a removal of the socket."""
        known = None
        while True:
            found = self.kubelet_identity()
            if found and (found != known or self.is_gone()):
                if self.is_gone():
                    await self.serve_again()
                if await self.register():
                    known = found
            await asyncio.sleep(_LOOK)

    def kubelet_identity(self) -> tuple[int, int] | None:
        """What tells one kubelet's socket from another's; None without a socket."""
        with suppress(OSError):
            found = self.kubelet.lstat()
            return found.st_ino, found.st_mtime_ns
        return None

    def is_gone(self) -> bool:
        """Whether the socket was removed."""
        return not self.socket.has_file

    async def serve_again(self) -> None:
        """Opens the socket again."""
        await self.socket.stop()
        await self.socket.start()

    def registration(self) -> dict[str, Any]:
        """The fields of Register."""
        endpoint = self.path.name
        fields: dict[str, Any] = {"version": self.version, "endpoint": endpoint, "resource_name": self.resource}
        return {**fields, "options": self.options}

    async def register(self) -> bool:
        """Calls Register; returns whether the kubelet answered, also with a refusal."""
        async with grpc.aio.insecure_channel(target(self.kubelet)) as channel:
            try:
                await REGISTER.stub(channel)(REGISTER.request(**self.registration()), timeout=_REGISTER_LIMIT)
            except grpc.aio.AioRpcError as error:
                return error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
        return True

    # -- the service

    def methods(self) -> dict[Method, Any]:
        """The handlers at the socket."""
        return {
            GET_OPTIONS: self.get_options,
            LIST_AND_WATCH: self.list_and_watch,
            GET_PREFERRED_ALLOCATION: self.prefer,
            ALLOCATE: self.allocate,
            PRE_START_CONTAINER: self.pre_start,
        }

    async def get_options(self, request: Any, context: Any) -> Any:
        return GET_OPTIONS.response(**self.options)

    # -- lists

    def health_of(self, device: str) -> str:
        """The health of a device, as it is sent."""
        sick = device in self.broken or (self.sick and device == self.devices[-1])
        return str(Health.UNHEALTHY if sick else Health.HEALTHY)

    def listed(self, stream: int, number: int) -> list[tuple[str, str]]:
        """The IDs and the health of a list; `stream` and `number` are 0 for the first ones."""
        return [(device, self.health_of(device)) for device in self.devices]

    async def list_and_watch(self, request: Any, context: Any) -> AsyncGenerator[Any, None]:
        """Streams lists: the first one at once, then one after each change."""
        waker = asyncio.Queue[None]()
        self.wakers.add(waker)
        stream, self.streams = self.streams, self.streams + 1
        number = 0
        try:
            await self.before_first_list(stream)
            while True:
                found = self.listed(stream, number)
                yield LIST_AND_WATCH.response(devices=[{"ID": id_, "health": health} for id_, health in found])
                number += 1
                if not await self.woken(waker):
                    return
        finally:
            self.wakers.discard(waker)

    async def before_first_list(self, stream: int) -> None:
        """Returns when the first list is due."""

    async def woken(self, waker: "asyncio.Queue[None]") -> bool:
        """Waits until the next list is due; returns whether the stream continues."""
        await waker.get()
        return True

    async def alternate(self) -> None:
        """Changes the health of the last device, until a device is broken from outside.

        Not soon after a stream was opened: experiments break devices then, also on a slow machine.
        """
        open_for = 0
        while self.change:
            await asyncio.sleep(self.change)
            self.was_broken |= bool(self.found())
            open_for = open_for + 1 if self.wakers else 0
            if not self.was_broken and open_for > 2:
                self.sick = not self.sick
                self.wake()

    def wake(self) -> None:
        """A list is due on all streams."""
        for waker in self.wakers:
            waker.put_nowait(None)

    async def watch_health(self) -> None:
        """Lists devices that are broken or healed from outside."""
        while True:
            await asyncio.sleep(_LOOK)
            self.was_broken |= bool(self.found())
            found = self.files()
            if found != self.broken:
                self.broken = found
                self.wake()

    def files(self) -> frozenset[str]:
        """The names of the broken devices, as the plugin knows them."""
        return self.found()

    def found(self) -> frozenset[str]:
        """The names of the broken devices."""
        return self.names_in(self.health_dir) | self.names_in(self.links_dir)

    def names_in(self, folder: Path) -> frozenset[str]:
        """The devices with a file in a folder."""
        with suppress(OSError):
            return frozenset(path.name for path in folder.iterdir() if not path.name.startswith("."))
        return frozenset()

    # -- devices

    async def allocate(self, request: Any, context: Any) -> Any:
        wanted = [list(container.devices_ids) for container in request.container_requests]
        if problem := self.refusal([device for devices in wanted for device in devices]):
            await context.abort(grpc.StatusCode.NOT_FOUND, problem)
        return ALLOCATE.response(container_responses=self.responses(wanted))

    def refusal(self, devices: Sequence[str]) -> str:
        """Why devices cannot be allocated; "" if they can."""
        return next((f"device {device} does not exist" for device in devices if device not in self.devices), "")

    def responses(self, wanted: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
        """The response for each container."""
        return [self.response(devices) for devices in wanted]

    def response(self, devices: Sequence[str]) -> dict[str, Any]:
        """The response for a container."""
        names = [{"name": self.cdi_name(device)} for device in devices]
        return {"envs": {"MUTANT_DEVICES": ",".join(devices)}, "cdi_devices": names}

    def cdi_name(self, device: str) -> str:
        """The qualified name of a device for container runtimes."""
        return f"{self.cdi_kind}={device}"

    def write_cdi_spec(self) -> None:
        """Writes the CDI spec of all devices."""
        edits = {"env": ["MUTANT=1"]}
        devices = [{"name": device, "containerEdits": edits} for device in self.cdi_devices()]
        spec = {"cdiVersion": "0.6.0", "kind": self.cdi_kind, "devices": devices}
        self.cdi_dir.joinpath(f"{self.name}.json").write_text(json.dumps(spec))

    def cdi_devices(self) -> tuple[str, ...]:
        """The devices in the CDI spec."""
        return self.devices

    async def prefer(self, request: Any, context: Any) -> Any:
        chosen = [
            self.choice(list(one.available_deviceIDs), list(one.must_include_deviceIDs), one.allocation_size)
            for one in request.container_requests
        ]
        return GET_PREFERRED_ALLOCATION.response(container_responses=[{"deviceIDs": devices} for devices in chosen])

    def choice(self, available: list[str], included: list[str], size: int) -> list[str]:
        """The preferred devices of a container."""
        return list(dict.fromkeys((*included, *available)))[:size]

    async def pre_start(self, request: Any, context: Any) -> Any:
        return PRE_START_CONTAINER.response()
