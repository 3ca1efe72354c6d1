"""Drivers of a file in this process, and `drahealth ctl` at the other end of their socket."""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import ClientSession

from drahealth.fakes.cluster.api import SLICES
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.control.news import News
from drahealth.fakes.control.wire import LINE_LIMIT
from drahealth.fakes.ctl.connection import Connection
from drahealth.fakes.serve.program import Program, settings_of
from drahealth.fakes.serve.settings import Settings
from drahealth.proto.events import DriverEvent, DriverServed, to_json
from drahealth.suites.unit import command_process
from drahealth.suites.unit.endings import PATIENCE
from drahealth.suites.unit.manager.rig import until

DRIVER = "gpu.example.com"
FILE = """
format: inventory/v1
devices:
  - {name: gpu, count: 2}
  - {name: split, partitions: [{name: mig, count: 2}]}
"""

TWO = """
format: inventory/v1
drivers:
  - {name: gpu.example.com, devices: [{name: gpu}]}
  - {name: nic.example.com, catalogue: nic, devices: [{name: nic}]}
"""


@dataclass(frozen=True)
class Said:
    """What a command has come to."""

    code: int
    out: str
    err: str


class Rig:
    """A kubelet's directory, a file, and the program on them."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="dra-")
        self.root = Path(self._folder.name)
        self.socket = self.root / "control.sock"
        self.file = self.root / "gpus.yaml"
        self.file.write_text(FILE)
        self.api = ApiServer()
        self.heard: list[tuple[str, dict[str, Any]]] = []
        self.processes: list[asyncio.subprocess.Process] = []
        """Those that are to have ended with the test."""
        self._running: list[tuple[asyncio.Event, asyncio.Task[None]]] = []

    async def close(self) -> None:
        for told, task in self._running:
            told.set()
            await asyncio.wait_for(asyncio.gather(task, return_exceptions=True), PATIENCE)
        for process in self.processes:
            if process.returncode is None:
                process.kill()
                await process.communicate()
        self._folder.cleanup()

    def settings(self, **given: Any) -> Settings:
        """Those of the program; `given` are more of the command's options."""
        usual = {"kubelet_dir": self.root, "node_name": "node-a", **given}
        path = usual.pop("socket", self.socket)
        return settings_of(self.file, socket=path, kubeconfig=None, given=usual)

    async def serve(self, api: Any = None, **given: Any) -> Program:
        """The program, once it serves. Raises what it ends with before."""
        news, serves = News(), asyncio.Event()

        def hear(event: DriverEvent) -> None:
            self.heard.append((event.driver, to_json(event)))
            if isinstance(event, DriverServed):
                serves.set()

        news.add(hear)
        program, told = Program(self.settings(**given), api or self.api, news, self.api), asyncio.Event()
        running = asyncio.create_task(program.run(told))
        self._running.append((told, running))
        await until(lambda: running.done() or serves.is_set(), PATIENCE)
        if running.done():
            running.result()
        return program

    async def end(self) -> None:
        """Ends the program and waits for it."""
        told, running = self._running.pop()
        told.set()
        await asyncio.wait_for(running, PATIENCE)

    def sockets(self) -> list[str]:
        """All existing ones."""
        return sorted(str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_socket())

    async def slices(self) -> int:
        """How many are published."""
        return len(await self.api.list(SLICES))

    async def ctl(self, *arguments: str) -> Said:
        """What `drahealth ctl` says to that."""
        done = await command_process.run_async(command_process.FAKES, "ctl", "--socket", str(self.socket), *arguments)
        return Said(done.returncode, done.stdout, done.stderr)

    async def told(self, call: str, /, name: str = "", **args: Any) -> Any:
        """A call of a driver by a connection of its own, as `ctl` makes it."""

        def tell() -> Any:
            with Connection(self.socket) as connection:
                return connection.call(call, connection.call("use", name=name)["driver"], **args)

        return await asyncio.to_thread(tell)

    @property
    def metrics_url(self) -> str:
        return next(str(line["metrics"]) for _, line in self.heard if line.get("metrics"))

    async def metrics(self) -> str:
        """The metrics, read with the token."""
        token = self.root.joinpath("control.sock.metrics-token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        async with ClientSession(headers=headers) as session, session.get(self.metrics_url) as answer:
            assert answer.status == 200
            return await answer.text()

    async def health(self) -> dict[str, str]:
        """What the driver says of its devices."""
        return {device["device"]: device["health"] for device in await self.told("devices")}

    @asynccontextmanager
    async def line(self) -> AsyncIterator["Ends"]:
        """A connection for lines of one's own."""
        reader, writer = await asyncio.open_unix_connection(str(self.socket), limit=LINE_LIMIT)
        yield Ends(reader, writer)
        writer.close()


Wanted = Callable[[Any], bool]


def _any(said: Any) -> bool:
    return True


@dataclass(frozen=True)
class Ends:
    """A connection to the control socket."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def asks(self, *requests: Any, until: Wanted = _any) -> Any:
        """Says these, lines of JSON or of bytes; the answer to the last."""
        answer = None
        for request in requests:
            self.writer.write(request if isinstance(request, bytes) else json.dumps(request).encode() + b"\n")
            answer = await self.hears(until)
        return answer

    async def hears(self, wanted: Wanted = _any) -> Any:
        """The next line of that kind; None where the connection has ended."""
        async with asyncio.timeout(PATIENCE):
            while line := await self.reader.readline():
                said = json.loads(line)
                if wanted(said):
                    return said
        return None
