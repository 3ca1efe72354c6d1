"""Fake drivers for their tests, told what to do here or over a stream, and a kubelet's ends of their sockets."""

import asyncio
import socket
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import grpc.aio

from drahealth.fakes.clock import JumpClock
from drahealth.fakes.cluster.api import CLAIMS, SLICES, Object
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.control.fake_options import DriverControl, DriverOptions, PluginOptions
from drahealth.fakes.control.remote import RemoteDriver, RemoteHost
from drahealth.fakes.control.server import ControlServer, Make
from drahealth.fakes.control.wire import LINE_LIMIT, Writer
from drahealth.fakes.hardware.device_plugin import FakeDevicePlugin
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.proto.clock import Clock
from drahealth.proto.events import Event, Observe
from drahealth.proto.health_apis import V1, HealthApi
from drahealth.proto.services import GET_INFO, NOTIFY_REGISTRATION, Unary
from drahealth.proto.sockets import target
from drahealth.proto.values import DeviceHealth, Health, Report
from drahealth.suites.unit.endings import PATIENCE

DRIVER = "gpu.example.com"
REQUEST = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}
E = TypeVar("E")


def make_plugin(options: PluginOptions, observe: Observe) -> FakeDevicePlugin:
    return FakeDevicePlugin(options, observe=observe)


class Rig:
    """A place for drivers, on a clock that jumps."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="dra-")
        self.root = Path(self._folder.name)
        self.clock = JumpClock()
        self.api = ApiServer(clock=self.clock)
        self.events: list[Event] = []
        self._closing: list[Callable[[], Awaitable[Any]]] = []

    async def close(self) -> None:
        for close in reversed(self._closing):
            await close()
        self._folder.cleanup()

    def on_close(self, close: Callable[[], Awaitable[Any]]) -> None:
        self._closing.append(close)

    def here(
        self,
        *,
        api: ApiServer | None = None,
        clock: Clock | None = None,
        observe: Observe | None = None,
        **options: Any,
    ) -> FakeDriver:
        """A driver that is controlled in this process; not started."""
        seen = observe or self.events.append
        driver = FakeDriver(self.options(**options), api or self.api, clock=clock or self.clock, observe=seen)
        self._closing.append(driver.stop)
        return driver

    async def there(self, **options: Any) -> RemoteDriver:
        """The same, told what to do over a stream."""
        host = await self.host(lambda wanted, observe: self.here(observe=observe, **options))
        return await host.make(self.options(**options), lambda record: self.events.append(record.what))

    def options(self, **options: Any) -> DriverOptions:
        """What makes a driver of this rig."""
        folders = {"registry_dir": str(self.root / "registry"), "data_dir": str(self.root / "data")}
        given = {name: value for name, value in options.items() if name in DriverOptions.__slots__}
        return DriverOptions(
            DRIVER, **{"node": "node-a", "devices": ("gpu-0", "gpu-1"), "heartbeat": 0.0, **folders, **given}
        )

    async def host(self, make: Make | None = None) -> RemoteHost:
        """The far end of a stream to a server that makes drivers."""
        server = ControlServer(
            make or (lambda _, observe: self.here(observe=observe)), jump=self.clock.jump, make_plugin=make_plugin
        )

        async def connect() -> tuple[asyncio.StreamReader, Writer]:
            return await self.connect(server)

        host = RemoteHost(connect)
        self._closing.append(host.close)
        return host

    async def connect(
        self, server: ControlServer, limit: int = LINE_LIMIT
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A stream to a server of control calls."""
        ours, theirs = socket.socketpair()
        serving = asyncio.create_task(server.serve(*await asyncio.open_connection(sock=theirs, limit=limit)))
        reader, writer = await asyncio.open_connection(sock=ours, limit=limit)

        async def close() -> None:
            writer.close()
            async with asyncio.timeout(PATIENCE):
                await serving

        self._closing.append(close)
        return reader, writer

    def sockets(self) -> list[str]:
        """The socket files that a kubelet could see, and any others."""
        return sorted(str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_socket())

    async def slices(self) -> list[tuple[str, int, int, int]]:
        """The published slices: name, generation, slices in the pool, devices in this one."""
        found = await self.api.list(SLICES)
        pools = [(s["metadata"]["name"], s["spec"]["pool"], len(s["spec"]["devices"])) for s in found]
        return [(name, pool["generation"], pool["resourceSliceCount"], count) for name, pool, count in pools]

    async def claim(self, *devices: str, driver: str = DRIVER, name: str = "gpus") -> Object:
        """A claim of the API that is allocated these devices."""
        made = await self.api.create(CLAIMS, {"metadata": {"name": name, "namespace": "default"}, "spec": REQUEST})
        results = [{"request": "gpu/big", "driver": driver, "pool": "node-a", "device": device} for device in devices]
        made["status"] = {"allocation": {"devices": {"results": results}}}
        return await self.api.replace_status(CLAIMS, made)

    # -- a kubelet's ends

    async def call(self, method: Unary[Any, Any], where: str = "data/dra.sock", **fields: Any) -> Any:
        async with grpc.aio.insecure_channel(target(self.root / where)) as channel:
            return await method.stub(channel)(method.request(**fields), timeout=PATIENCE)

    async def ask(self) -> Any:
        return await self.call(GET_INFO, f"registry/{DRIVER}-reg.sock")

    async def notify_registration(self, ok: bool = True, error: str = "") -> None:
        """The outcome of its registration."""
        where = f"registry/{DRIVER}-reg.sock"
        await self.call(NOTIFY_REGISTRATION, where, plugin_registered=ok, error=error)

    @asynccontextmanager
    async def watch(
        self, driver: DriverControl, health_api: HealthApi = V1, where: str = "data/dra.sock"
    ) -> AsyncIterator["Stream"]:
        """An open health stream."""
        before = (await driver.state()).streams_opened
        async with grpc.aio.insecure_channel(target(self.root / where)) as channel:
            stream = Stream(channel, health_api)
            async with asyncio.timeout(PATIENCE):
                while True:
                    if (await driver.state()).streams_opened > before:
                        break
                    await asyncio.sleep(0.002)
            yield stream
            stream.cancel()

    async def closed(self, driver: DriverControl) -> None:
        """Returns once the driver has no open stream, and what it saw until then has come here."""
        async with asyncio.timeout(PATIENCE):
            while True:
                if not (await driver.state()).streams:
                    return
                await asyncio.sleep(0.002)

    def happened(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]


class Stream:
    """A health stream as the kubelet sees it."""

    def __init__(self, channel: grpc.aio.Channel, health_api: HealthApi) -> None:
        self._health_api = health_api
        call: Any = channel.unary_stream(
            health_api.method.path, request_serializer=health_api.method.request.SerializeToString
        )
        self._call = call(health_api.method.request())
        self._messages = aiter(self._call)

    async def raw(self) -> bytes:
        """The next message as bytes. Raises StopAsyncIteration, AioRpcError, or TimeoutError when none comes."""
        async with asyncio.timeout(PATIENCE):
            data: bytes = await anext(self._messages)
        return data

    async def report(self) -> Report:
        return self._health_api.decode(self._health_api.method.response.FromString(await self.raw()))

    async def shows(self) -> dict[str, str]:
        """The next report: health and message by device."""
        return {d.device: ": ".join(filter(None, (d.health, d.message))) for d in await self.report()}

    def cancel(self) -> None:
        self._call.cancel()


def says(device: str, health: Health = Health.HEALTHY, message: str = "", **more: int) -> DeviceHealth:
    """Of a device in the node's own pool."""
    return DeviceHealth("node-a", device, health, message, **more)
