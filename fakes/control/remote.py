"""Drivers in another process or in a Pod, controlled over a stream (`wire`)."""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict
from itertools import count
from typing import Any, TypeVar

from pydantic_core import to_jsonable_python
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_fixed

from drahealth.fakes.control.definition import Command
from drahealth.fakes.control.fake_options import DriverControl, DriverOptions, PluginControl, PluginOptions
from drahealth.fakes.control.wire import (
    LINE_LIMIT,
    DriverLine,
    MalformedLine,
    Writer,
    decode_reply,
    encode,
    read_attached,
    read_driver_line,
    to_line,
)
from drahealth.proto.events import Record

Reply = TypeVar("Reply")
Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, Writer]]]
"""Makes a connection. Raises OSError where it may be tried again, and anything else where that is of no use."""

_EVERY = 0.2
"""Seconds between attempts to connect again."""
_ACKNOWLEDGE = 100
"""Lines received after which the client acknowledges them, if no call does."""
_FAREWELL = 8.0
"""Seconds that the drivers have to retire at the end."""
_GONE = "the driver is gone"


class ControlFailed(Exception):
    """The driver rejected a call, or its process has ended. The message names the call and the reason."""


class RemoteHost:
    """A place where drivers are made: one session, over a connection that may be lost and made again.

    `patience` is how many seconds a connection may be away; calls wait for it so long. `gone` is the reason of calls
    after that.
    """

    def __init__(self, connect: Connect, *, patience: float = 0.0, gone: str = "") -> None:
        self._connect = connect
        self._patience = patience
        self._gone = gone
        self._session = uuid.uuid4().hex
        self._numbers = count(1)
        self._last = 0
        self._waiting: dict[int, tuple[bytes, asyncio.Future[Any]]] = {}
        self._observers: dict[int, Callable[[Record], None]] = {}
        self._seen = 0
        self._offset = 0.0
        self._writer: Writer | None = None
        self._over = ""
        self._life = asyncio.create_task(self._live(), name="control connection of drivers")

    @property
    def problem(self) -> str:
        """Reason why these drivers can no longer receive calls; empty while they can."""
        return self._over

    async def make(self, options: DriverOptions, observe: Callable[[Record], None]) -> "RemoteDriver":
        """Makes a driver, not started; what happens to it is observed at our own monotonic time."""
        number = int(await self.call("make", options=asdict(options)))
        self._observers[number] = observe
        return RemoteDriver(self, number, options.name)

    async def make_plugin(self, options: PluginOptions, observe: Callable[[Record], None]) -> "RemotePlugin":
        """Makes a device plugin, likewise."""
        number = int(await self.call("make_plugin", options=asdict(options)))
        self._observers[number] = observe
        return RemotePlugin(self, number, options.resource)

    async def use(self, name: str = "") -> "RemoteDriver":
        """A driver of the file that the process serves; without a name the only one. Its events are not observed."""
        return RemoteDriver(self, *await self._use(name, "driver"))

    async def use_plugin(self, name: str = "") -> "RemotePlugin":
        """A device plugin, by its resource, likewise."""
        return RemotePlugin(self, *await self._use(name, "device-plugin"))

    async def add(self, options: DriverOptions, namespace: str) -> "RemoteDriver":
        """Adds a driver, started, to those of the process; it ends by `end`, or when the namespace is deleted."""
        await self.call("add", options=asdict(options), namespace=namespace)
        return await self.use(options.name)

    async def end(self, driver: "RemoteDriver") -> None:
        """Ends a driver that was added."""
        await self.call("end", name=driver.name)

    async def _use(self, name: str, kind: str) -> tuple[int, str]:
        used = await self.call("use", name=name)
        if used.get("kind", "driver") != kind:
            await self.call("drop", driver=used["driver"])
            raise ControlFailed(f"{used['name']} is a {used['kind']}, not a {kind}")
        return int(used["driver"]), str(used["name"])

    async def drop(self, driver: "RemoteDriver | RemotePlugin") -> None:
        """Stops a driver and forgets it."""
        self._observers.pop(driver.number, None)
        await self.call("drop", driver=driver.number)

    async def jump(self, seconds: float) -> None:
        """Lets the drivers' clock jump."""
        await self.call("jump", seconds=seconds)

    async def close(self) -> None:
        """Retires all drivers and ends the connection."""
        if not self._over:
            with suppress(ControlFailed, TimeoutError):
                await asyncio.wait_for(self.call("close"), _FAREWELL)
        self._life.cancel()
        await asyncio.wait([self._life])
        if self._writer:
            self._writer.close()
            with suppress(OSError):
                await self._writer.wait_closed()

    async def do(self, driver: int, command: Command[Reply]) -> Reply:
        """Does a command of a driver or device plugin. Raises ControlFailed."""
        return decode_reply(command, await self.call(command.verb, driver, **encode(command)))

    async def call(self, name: str, of: int | None = None, /, **args: Any) -> Any:
        """Makes a call, of the session or of driver `of`. Raises ControlFailed."""
        number = self._last + 1
        request = {"id": number, "driver": of, "call": name, "args": to_jsonable_python(args), "seen": self._seen}
        line = to_line(request)
        if len(line) > LINE_LIMIT:
            raise ControlFailed(f"{name}: a line must have at most {LINE_LIMIT} bytes, got {len(line)}")
        if self._over:
            raise ControlFailed(f"{name}: {self._over}")
        self._last = number
        answer = asyncio.get_running_loop().create_future()
        self._waiting[number] = (line, answer)
        if self._writer:
            self._writer.write(line)
        try:
            return await answer
        except ControlFailed as failed:
            raise ControlFailed(f"{name}: {failed}") from None
        finally:
            self._waiting.pop(number, None)

    # -- the connection

    async def _live(self) -> None:
        """Keeps a connection, and takes what comes over it, until it cannot be had any more."""
        why = self._gone or _GONE
        patience = self._patience or _FAREWELL
        try:
            while True:
                reader = await self._connected(patience)
                patience = self._patience
                with suppress(OSError):
                    await self._listen(reader)
                if not self._patience:
                    return
                self._lose()
        except MalformedLine as malformed:
            why = str(malformed)
        except OSError as error:
            why = self._gone or (f"{_GONE}: {error}" if str(error) else _GONE)
        except Exception as error:  # whatever it is, who called is waiting for an answer
            why = str(error) or type(error).__name__
        finally:
            self._over = why
            self._fail(why)

    def _lose(self) -> None:
        """The connection has ended; what is called from now on waits for the next one."""
        if self._writer:
            self._writer.close()
        self._writer = None

    async def _connected(self, patience: float) -> asyncio.StreamReader:
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(OSError),
            wait=wait_fixed(_EVERY),
            stop=stop_after_delay(patience),
            reraise=True,
        )
        return await retrying(self._attach)

    async def _attach(self) -> asyncio.StreamReader:
        reader, writer = await self._connect()
        try:
            before = time.monotonic()
            writer.write(to_line({"attach": self._session, "seen": self._seen, "calls": self._last_answered()}))
            line = await _line(reader)
            if not line:
                raise ConnectionError("the connection ended at once")
            attached = read_attached(line)
        except BaseException:
            writer.close()
            raise
        self._offset = clock_offset(before, attached.now, time.monotonic())
        for number, (call, _) in self._waiting.items():
            if number > attached.taken:
                writer.write(call)
        self._writer = writer
        return reader

    def _last_answered(self) -> int:
        """The newest call that surely came: with none, a session that nobody knows is a new one."""
        return min(self._waiting, default=self._last + 1) - 1

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        while line := await _line(reader):
            self._receive(read_driver_line(line))

    def _receive(self, line: DriverLine) -> None:
        if line.seq and line.seq <= self._seen:
            return
        self._seen = max(self._seen, line.seq)
        if self._writer and line.seq % _ACKNOWLEDGE == 0:
            self._writer.write(to_line({"seen": self._seen}))
        record = line.record(self._offset)
        if line.news is not None:
            return  # for who watches, which this does not
        if record:
            if observe := self._observers.get(line.driver or 0):
                observe(record)
        elif line.id is None:
            self._fail(line.error or self._gone or _GONE)
        elif (waiting := self._waiting.get(line.id)) and not waiting[1].done():
            if line.error is not None:
                waiting[1].set_exception(ControlFailed(line.error))
            else:
                waiting[1].set_result(line.result)

    def _fail(self, why: str) -> None:
        for _, waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ControlFailed(why))


class RemoteDriver(DriverControl):
    """A driver of a RemoteHost. Commands raise ControlFailed too."""

    def __init__(self, host: RemoteHost, number: int, name: str = "") -> None:
        self.host = host
        self.number = number
        self.name = name

    async def do(self, command: Command[Reply]) -> Reply:
        return await self.host.do(self.number, command)


class RemotePlugin(PluginControl):
    """A device plugin of a RemoteHost. Commands raise ControlFailed too."""

    def __init__(self, host: RemoteHost, number: int, name: str = "") -> None:
        self.host = host
        self.number = number
        self.name = name

    async def do(self, command: Command[Reply]) -> Reply:
        return await self.host.do(self.number, command)


async def _line(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readline()
    except ValueError:  # readline's word for a line over the limit
        raise MalformedLine("the driver sent a line over the limit") from None


def clock_offset(before: float, there: float, after: float) -> float:
    """What to add to a time there, which was read between `before` and `after` here. Nothing where it may be the same
    clock: on one machine it is, and events shall not change places."""
    return 0.0 if before <= there <= after else (before + after) / 2 - there
