"""Fake drivers in this process for the scripted kubelet, and the labs of experiments on them."""

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from drahealth.fakes.clock import JumpClock
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.control.fake_options import DriverOptions
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.fakes.sockets import ServedSocket
from drahealth.fakes.waiting import cancel_and_wait
from drahealth.proto.events import Event
from drahealth.proto.services import GET_INFO, Method
from drahealth.suites.driver_checks.driver_run import DriverRun
from drahealth.suites.driver_checks.lab import Facts, Lab
from drahealth.suites.driver_checks.scripted_kubelet import Plugin, connected
from drahealth.suites.driver_checks.subject.places import Places
from drahealth.suites.driver_checks.subject.subject import Subject
from drahealth.suites.unit.driver_checks.runs import run_with
from drahealth.suites.unit.endings import calls_end

DRIVER = "gpu.example.com"
NODE = "node-a"
E = TypeVar("E")


class LabRig:
    """Directories and an API server for drivers, and what an experiment recorded."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="dra-")
        root = Path(self._folder.name)
        self.places = Places(root, root / "reg", root / "plugins", root / "cdi", None, NODE)
        self.places.make()
        self.clock = JumpClock()
        self.api = ApiServer(clock=self.clock)
        self.events: list[Event] = []
        self.facts = Facts()
        self._closing: list[Callable[[], Awaitable[Any]]] = []

    async def close(self) -> None:
        await self.close_drivers()
        await calls_end()
        self._folder.cleanup()

    # -- drivers

    async def close_drivers(self) -> None:
        """Ends everything that serves."""
        while self._closing:
            await self._closing.pop()()

    async def driver(self, **options: Any) -> FakeDriver:
        """A started fake driver with three devices."""
        folders = {"registry_dir": str(self.places.registry_dir), "data_dir": str(self.places.plugins_dir / DRIVER)}
        given = {"node": NODE, "devices": ("gpu-0", "gpu-1", "gpu-2"), "cdi_dir": str(self.places.cdi_dir), **folders}
        driver = FakeDriver(DriverOptions(DRIVER, **{**given, **options}), self.api, clock=self.clock)
        self._closing.append(driver.stop)
        await driver.start()
        return driver

    async def serve(self, methods: Mapping[Method, Any], name: str = "odd.sock") -> Path:
        """Serves methods by hand at a registration socket."""
        path = self.places.registry_dir / name
        served = ServedSocket(path, path.with_name(f".{name}"), methods)
        await served.start()
        self._closing.append(served.stop)
        return path

    async def listen(self, answer: Callable[[asyncio.StreamWriter], None], name: str = "odd.sock") -> Path:
        """A registration socket that is no gRPC server: `answer` handles each connection."""
        path = self.places.registry_dir / name
        open_connections: list[asyncio.StreamWriter] = []

        def handle(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            open_connections.append(writer)
            answer(writer)

        server = await asyncio.start_unix_server(handle, path)

        async def close() -> None:
            server.close()
            for writer in open_connections:
                writer.close()

        self._closing.append(close)
        return path

    def plugin(self, endpoint: Path) -> Plugin:
        """A plugin of that socket that advertises nothing."""
        return Plugin(DRIVER, endpoint, endpoint, ())

    # -- experiments

    def lab(self, run: DriverRun | None = None, ended: Mapping[str, asyncio.Event] | None = None) -> Lab:
        """The lab of an experiment on the running driver."""
        subject = Subject("main", self.places, self.clock, self.events.append, api=self.api)
        return Lab(subject, self.events.append, self.facts, run or run_with(), ended or {})

    def happened(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    @asynccontextmanager
    async def time_flies(self, seconds: float = 0.25) -> AsyncGenerator[None]:
        """Advances the clock by so many seconds, again and again. Each time gRPC first connects and makes a call.

        So the limit of a call, in simulated time, lasts for many calls in real time, also on a busy machine.
        """
        folder = self.places.registry_dir.parent
        echo = ServedSocket(folder / "echo.sock", folder / ".echo", {GET_INFO: _echo})
        await echo.start()

        async def fly() -> None:
            while True:
                async with connected(echo.path) as channel:
                    await GET_INFO.stub(channel)(GET_INFO.request())
                await asyncio.sleep(0.01)
                self.clock.jump(seconds)

        flying = asyncio.create_task(fly())
        try:
            yield
        finally:
            await cancel_and_wait(flying)
            await echo.stop()


async def _echo(request: Any, context: Any) -> Any:
    return GET_INFO.response()
