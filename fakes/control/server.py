"""The server of the control surface: the served fakes, and a session for each client."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import ValidationError, validate_call

from drahealth.fakes.cluster.api import ApiError
from drahealth.fakes.control.definition import Subject, definition
from drahealth.fakes.control.fake_options import DriverControl, DriverOptions, PluginControl, PluginOptions
from drahealth.fakes.control.news import News, command_done
from drahealth.fakes.control.wire import (
    LINE_LIMIT,
    Attached,
    MalformedLine,
    Request,
    Writer,
    decode,
    encode_reply,
    read_attach,
    read_request,
    to_line,
    waiting,
    wrong_arguments,
)
from drahealth.fakes.hints import near
from drahealth.fakes.waiting import cancel_and_wait
from drahealth.proto.events import DriverEvent, Event, Observe, to_json

# Served drivers and device plugins: the process makes them from a file, and all connections share them.


@dataclass(frozen=True, slots=True)
class Commanded:
    """A fake that takes commands as they come over a connection."""

    subject: Subject
    control: DriverControl | PluginControl

    async def call(self, name: str, args: Mapping[str, Any]) -> Any:
        """Does the command of that name; returns its reply as JSON has it. Raises ValueError, ApiError."""
        return encode_reply(await self.control.do(decode(self.subject, name, args)))

    def changes(self, name: str) -> bool:
        """Whether the command does more than ask."""
        return definition(self.subject, name).changes


@dataclass(frozen=True, slots=True)
class Served:
    """One such driver, or device plugin, which is a driver in every other respect here."""

    name: str
    """The driver's, or the plugin's resource, which no driver can be called."""
    described: Mapping[str, Any]
    """What one has to know of it, as plain data; `kind` is driver or device-plugin."""
    commanded: Commanded

    @classmethod
    def driver(cls, o: DriverOptions, control: DriverControl) -> "Served":
        """A driver."""
        more = {"node": o.node, "pool": o.pool_name, **_devices(o)}
        return cls(o.name, {"kind": "driver", "name": o.name, **more}, Commanded("driver", control))

    @classmethod
    def plugin(cls, o: PluginOptions, control: PluginControl) -> "Served":
        """A device plugin."""
        described = {"kind": "device-plugin", "name": o.resource, **_devices(o)}
        return cls(o.resource, described, Commanded("device-plugin", control))


def _devices(o: DriverOptions | PluginOptions) -> dict[str, Any]:
    nodes = len({device.node for device in o.inventory if device.node})
    of_fleet = {"nodes": nodes} if nodes else {}
    return {"devices": len(o.devices), "catalogue": o.catalogue, "policy": o.policy, **of_fleet}


class ServedDrivers:
    """All of a process, by name; `news` tells what happens to them."""

    def __init__(self, drivers: Iterable[Served] = (), news: News | None = None) -> None:
        self.news = news or News()
        self._drivers = {driver.name: driver for driver in drivers}
        self._added: set[str] = set()

    def all(self) -> list[Served]:
        """In the file's order, and then those that were added."""
        return list(self._drivers.values())

    def add(self, driver: Served) -> None:
        """A driver beside those of the file. A client must name it."""
        self._drivers[driver.name] = driver
        self._added.add(driver.name)

    def remove(self, name: str) -> None:
        """A driver that was added."""
        self._added.remove(name)
        del self._drivers[name]

    def get(self, name: str = "") -> Served:
        """That one, or the only one there is. Raises ValueError, which says which there are."""
        names = list(self._drivers)
        own = [each for each in names if each not in self._added]
        if not own and not name:
            raise ValueError("this process has no inventory file; start it with `drahealth driver serve -f FILE`")
        if not name:
            if len(own) > 1:
                raise ValueError(f"the process serves several drivers; choose one with --driver: {', '.join(names)}")
            return self._drivers[own[0]]
        if name not in self._drivers:
            raise ValueError(f"unknown driver {name!r}; {near(name, names)}")
        return self._drivers[name]


# The server of the control surface: each client has a session.
#
# A session makes its own drivers, which end with it. It can also use the served drivers, which continue after it.

Make = Callable[[DriverOptions, Observe], DriverControl]
MakePlugin = Callable[[PluginOptions, Observe], PluginControl]
Jump = Callable[[float], None]

_OWN_CALLS = ("make", "make_plugin", "drop", "jump", "close", "drivers", "use", "watch", "add", "end")

_END_LIMIT = 0.5
"""Seconds for the answers of running calls after the end of their session."""
_BACKLOG = 4 * 1024 * 1024
"""Bytes that can wait for a client that watches served drivers; lines beyond are left out and counted."""
_RETIREMENT = 5.0
"""Seconds for drivers to delete their published objects after the end of their session."""


class AddedDrivers(Protocol):
    """Drivers that clients add to the served ones (`serve.namespace_drivers`)."""

    async def add(self, options: DriverOptions, namespace: str) -> None: ...
    async def end(self, name: str) -> None: ...


class ControlServer:
    """Serves any number of connections. A session, with its drivers, outlives its connection for `linger` seconds.

    `jump` lets the drivers' clock jump; None for drivers that live on the system's time.
    """

    def __init__(
        self,
        make: Make,
        *,
        make_plugin: MakePlugin,
        jump: Jump | None = None,
        linger: float = 0.0,
        served: ServedDrivers | None = None,
        added: AddedDrivers | None = None,
    ) -> None:
        self._make = make
        self._make_plugin = make_plugin
        self._jump = jump
        self._linger = linger
        self._served = served or ServedDrivers()
        self._added = added
        self._sessions: dict[str, Session] = {}
        self._endings: dict[str, asyncio.Task[None]] = {}
        self._connections: dict[asyncio.Task[Any], Writer] = {}
        self._closing = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: Writer) -> None:
        """Serves a connection until it ends."""
        me = asyncio.current_task()
        assert me
        self._connections[me] = writer
        name = ""
        try:
            attach = read_attach(await reader.readline())
            name = attach.attach
            session = self._session(name, attach.calls, brief=attach.brief)
            session.attach(writer, attach.seen)
            while line := await reader.readline():
                session.take(line)
        except MalformedLine as malformed:
            writer.write(to_line({"seq": 0, "id": None, "error": str(malformed)}))
        except ValueError:  # readline's word for a line over the limit
            writer.write(to_line({"seq": 0, "id": None, "error": f"a line must have at most {LINE_LIMIT} bytes"}))
        except OSError:
            pass  # it ended less politely
        finally:
            del self._connections[me]
            self._left(name, writer)
            writer.close()

    async def close(self) -> None:
        """Ends all sessions and connections at once."""
        self._closing.set()
        for name, session in self._sessions.items():
            self._begin_end(name, session)
        await asyncio.gather(*self._endings.values())
        for writer in self._connections.values():
            writer.close()
        if self._connections:
            await asyncio.wait(self._connections, timeout=_END_LIMIT)

    def _session(self, name: str, calls: int, *, brief: bool) -> "Session":
        session = self._sessions.get(name)
        if (session is None and calls) or (session and session.over):
            raise MalformedLine("the drivers are lost: their process was restarted")
        if session is None:
            session = self._sessions[name] = Session(
                self._make, self._make_plugin, self._jump, self._served, self._added, brief=brief
            )
        elif ending := self._endings.pop(name, None):
            ending.cancel()
        return session

    def _left(self, name: str, writer: Writer) -> None:
        session = self._sessions.get(name)
        if session and session.detach(writer):
            self._begin_end(name, session)

    def _begin_end(self, name: str, session: "Session") -> None:
        if name not in self._endings:
            ending = asyncio.create_task(self._end(name, session), name="end of a control session")
            self._endings[name] = ending

    async def _end(self, name: str, session: "Session") -> None:
        if not session.over and not session.brief:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), self._linger)
        await session.close()
        del self._sessions[name], self._endings[name]


class Session:
    """The drivers and device plugins that one client made, and what it has yet to hear."""

    def __init__(
        self,
        make: Make,
        make_plugin: MakePlugin,
        jump: Jump | None,
        served: ServedDrivers,
        added: AddedDrivers | None = None,
        *,
        brief: bool = False,
    ) -> None:
        self.over = False
        """The client has called `close`."""
        self.brief = brief
        """It ends with its connection."""
        self._make_driver = make
        self._make_device_plugin = make_plugin
        self._jump_clock = jump
        self._drivers: dict[int, DriverControl | PluginControl] = {}
        self._commanded: dict[int, Commanded] = {}
        self._served = served
        self._added = added
        self._used: dict[int, Served] = {}
        """The served drivers that it uses, by number."""
        self._watched: dict[str, int] = {}
        self._end_watch: Callable[[], None] | None = None
        self._left_out = 0
        self._made = 0
        self._calls: set[asyncio.Task[None]] = set()
        self._taken = 0
        self._said = 0
        self._unseen: deque[tuple[int, bytes]] = deque()
        self._writer: Writer | None = None
        self._end: asyncio.Task[None] | None = None
        self._own_calls = {name: validate_call(getattr(self, name)) for name in _OWN_CALLS}

    # -- its connection

    def attach(self, writer: Writer, seen: int) -> None:
        """Attaches this connection, which then receives the lines after `seen`."""
        if self._writer:
            self._writer.close()
        self._writer = writer
        self._forget(seen)
        writer.write(to_line({"attached": Attached(now=time.monotonic(), taken=self._taken).model_dump()}))
        for _, line in self._unseen:
            writer.write(line)

    def detach(self, writer: Writer) -> bool:
        """The connection has ended; whether the session is without one now."""
        if self._writer is writer:
            self._writer = None
        return self._writer is None

    def take(self, line: bytes) -> None:
        """Takes a line; a call runs beside those that are under way, and one that came before is left out."""
        try:
            request = read_request(line)
        except MalformedLine as malformed:
            self._send(id=None, error=str(malformed))
            return
        self._forget(request.seen)
        if isinstance(request, Request) and request.id > self._taken:
            self._taken = request.id
            self._calls.add(call := asyncio.create_task(self._answer(request), name="control call"))
            call.add_done_callback(self._calls.discard)

    # -- the session's own calls

    async def make(self, options: DriverOptions) -> int:
        """Makes a driver; returns its number."""
        number = self._next_number()
        self._drivers[number] = driver = self._make_driver(options, self._observer(number))
        self._commanded[number] = Commanded("driver", driver)
        return number

    async def make_plugin(self, options: PluginOptions) -> int:
        """Makes a device plugin; returns its number, which is a driver's to every other call."""
        number = self._next_number()
        self._drivers[number] = plugin = self._make_device_plugin(options, self._observer(number))
        self._commanded[number] = Commanded("device-plugin", plugin)
        return number

    async def drivers(self) -> list[Mapping[str, Any]]:
        """The served drivers."""
        return [driver.described for driver in self._served.all()]

    async def use(self, name: str = "") -> Mapping[str, Any]:
        """Adds a served driver to the session, so that the session can send it commands.

        Returns its number and what it is. ValueError where `name` is none, or is left out and there are several.
        """
        driver, number = self._served.get(name), self._next_number()
        self._used[number] = driver
        self._commanded[number] = driver.commanded
        return {"driver": number, **driver.described}

    async def add(self, options: DriverOptions, namespace: str) -> None:
        """Starts a driver that is served until `end`, or until the namespace is deleted; `use` then finds it."""
        await self._addable.add(options, namespace)

    async def end(self, name: str) -> None:
        """Ends a driver that a client has added."""
        await self._addable.end(name)

    async def watch(self, driver: int) -> None:
        """Sends the events of a used driver: `news` without a number.

        They are not repeated on another connection. What a connection is too slow for is left out, and counted.
        """
        if driver not in self._used:
            raise ValueError(f"{driver} is not a served driver of this session; call `use` first")
        self._watched[self._used[driver].name] = driver
        if self._end_watch is None:
            self._end_watch = self._served.news.add(self._hear)

    async def drop(self, driver: int) -> None:
        """Stops a driver and removes it from the session; a served driver is only removed."""
        self._commanded.pop(driver, None)
        if used := self._used.pop(driver, None):
            self._watched.pop(used.name, None)
        if known := self._drivers.pop(driver, None):
            await known.stop()

    async def jump(self, seconds: float) -> None:
        """Lets the drivers' clock jump. Raises ValueError where they live on the system's time."""
        if self._jump_clock is None:
            raise ValueError("the drivers use the system clock, which cannot move forward; pass --jumping-clock")
        self._jump_clock(seconds)

    async def close(self) -> None:
        """Ends what is under way, and retires the drivers."""
        self.over = True
        if self._end is None:
            others = {call for call in self._calls if call is not asyncio.current_task()}
            self._end = asyncio.create_task(self._retire(others), name="retirement of drivers")
        await asyncio.shield(self._end)

    # -- inside

    @property
    def _addable(self) -> AddedDrivers:
        if self._added is None:
            raise ValueError("this process serves no drivers of a file, so no driver can be added")
        return self._added

    def _next_number(self) -> int:
        self._made += 1
        return self._made

    def _observer(self, number: int) -> Observe:
        def observe(event: Event) -> None:
            self._send(driver=number, at=time.monotonic(), event=to_json(event))

        return observe

    async def _retire(self, calls: "set[asyncio.Task[None]]") -> None:
        await _end(calls)
        drivers, self._drivers = self._drivers, {}
        if self._end_watch:
            self._end_watch()
        await asyncio.gather(*(_retire(driver) for driver in drivers.values()))

    async def _answer(self, request: Request) -> None:
        try:
            self._send(id=request.id, result=await self._called(request))
        except ValidationError as error:
            self._send(id=request.id, error=wrong_arguments(error))
        except ValueError as error:
            self._send(id=request.id, error=str(error))
        except ApiError as error:
            self._send(id=request.id, error=str(error), environment=True)
        except Exception as error:  # whatever it is, who called is waiting for an answer
            self._send(id=request.id, error=f"{type(error).__name__}: {error}", environment=True)

    async def _called(self, request: Request) -> Any:
        if request.driver is None:
            if request.call not in self._own_calls:
                raise ValueError(f"unknown call {request.call!r}; {near(request.call, _OWN_CALLS)}")
            return encode_reply(await self._own_calls[request.call](**request.args))
        if request.driver not in self._commanded:
            raise ValueError(f"unknown driver {request.driver}")
        commanded, used = self._commanded[request.driver], self._used.get(request.driver)
        result = await commanded.call(request.call, request.args)
        if used and commanded.changes(request.call):
            self._served.news.publish(command_done(used.name, request.call, request.args))
        return result

    def _hear(self, event: DriverEvent) -> None:
        if event.driver not in self._watched or self._writer is None or self._writer.is_closing():
            return
        if waiting(self._writer) > _BACKLOG:
            self._left_out += 1
            return
        message = {"seq": 0, "driver": self._watched[event.driver], "at": time.monotonic(), "news": to_json(event)}
        if self._left_out:
            message["left_out"] = self._left_out
            self._left_out = 0
        self._writer.write(to_line(message))

    def _send(self, **data: Any) -> None:
        self._said += 1
        line = to_line({"seq": self._said, **data})
        self._unseen.append((self._said, line))
        if self._writer and not self._writer.is_closing():
            self._writer.write(line)

    def _forget(self, seen: int) -> None:
        while self._unseen and self._unseen[0][0] <= seen:
            self._unseen.popleft()


async def _retire(driver: DriverControl | PluginControl) -> None:
    with suppress(ApiError, TimeoutError):
        await asyncio.wait_for(driver.retire(), _RETIREMENT)


async def _end(calls: "set[asyncio.Task[None]]") -> None:
    if calls:
        _, late = await asyncio.wait(calls, timeout=_END_LIMIT)
        await cancel_and_wait(*late)
