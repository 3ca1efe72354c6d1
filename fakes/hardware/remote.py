"""The control surface over a stream: the same calls as JSON lines, for a driver in another process or in a pod.

    -> {"id": 1, "call": "set_health", "args": {"device": "gpu-0", "health": "Unhealthy"}}
    <- {"at": 12.5, "event": {"event": "report-sent", ...}}
    <- {"id": 1, "result": null}          or {"id": 1, "error": "driver ... has no device ..."}

Calls are answered as they end, so a long one holds up no other. Events come with the monotonic time of the driver's
machine. Arguments are checked against the surface's own annotations.
"""

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

from pydantic import TypeAdapter, ValidationError, validate_call
from pydantic_core import to_jsonable_python

from drahealth.fakes.api import ApiError
from drahealth.fakes.hardware.control import DriverControl, DriverState
from drahealth.proto.events import Event, Record, from_json, to_json
from drahealth.proto.values import DeviceHealth, Health

CALLS = tuple(name for name in vars(DriverControl) if not name.startswith("_"))
"""The names of the surface's calls."""

LINE_LIMIT = 16 * 1024 * 1024
"""Bytes of one line; a report of ten thousand devices is about two million."""

_STATE = TypeAdapter(DriverState)


class ControlFailed(Exception):
    """The driver refused a call, or is gone; says which call and why."""


class ControlServer:
    """Answers one connection after another with a driver's own methods."""

    def __init__(self, driver: DriverControl) -> None:
        self._calls = {name: validate_call(getattr(driver, name)) for name in CALLS}
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def observe(self, event: Event) -> None:
        """Tells everybody who is connected; the driver's observer."""
        self._write({"at": time.monotonic(), "event": to_json(event)}, self._writers)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves a connection until it ends."""
        self._writers.add(writer)
        try:
            while line := await reader.readline():
                task = asyncio.create_task(self._answer(line, writer))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        except ValueError:  # readline's word for a line over the limit
            self._write({"id": None, "error": f"a request has at most {LINE_LIMIT} bytes"}, {writer})
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _answer(self, line: bytes, writer: asyncio.StreamWriter) -> None:
        number = None
        try:
            request = json.loads(line)
            number = request.get("id")
            if request["call"] not in self._calls:
                raise ValueError(f"there is no call {request['call']!r}; there are {', '.join(CALLS)}")
            result = await self._calls[request["call"]](**request.get("args", {}))
            answer = {"id": number, "result": to_jsonable_python(result)}
        except ValidationError as error:
            answer = {"id": number, "error": "; ".join(f"{e['loc']}: {e['msg']}" for e in error.errors())}
        except (ValueError, TypeError, KeyError, AttributeError, ApiError, OSError) as error:
            answer = {"id": number, "error": f"{type(error).__name__}: {error}"}
        self._write(answer, {writer})

    @staticmethod
    def _write(data: Any, writers: set[asyncio.StreamWriter]) -> None:
        line = json.dumps(data).encode() + b"\n"
        for writer in writers:
            if not writer.is_closing():
                writer.write(line)


class RemoteDriver:
    """A driver at the other end of a stream. Implements `control.DriverControl`; calls raise ControlFailed too."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, observe: Callable[[Record], None]
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._observe = observe
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._listener = asyncio.create_task(self._listen(), name="control connection of a driver")

    async def start(self) -> None:
        await self._call("start")

    async def stop(self) -> None:
        await self._call("stop")

    async def crash(self) -> None:
        await self._call("crash")

    async def retire(self) -> None:
        await self._call("retire")

    async def wait_registered(self) -> None:
        await self._call("wait_registered")

    async def set_health(self, device: str, health: Health, message: str = "", timeout: int | None = None) -> None:
        await self._call("set_health", device=device, health=health, message=message, timeout=timeout)

    async def play(self, changes: Sequence[DeviceHealth]) -> None:
        await self._call("play", changes=list(changes))

    async def report(self, devices: Sequence[DeviceHealth]) -> None:
        await self._call("report", devices=list(devices))

    async def hush(self, quiet: bool) -> None:
        await self._call("hush", quiet=quiet)

    async def send_raw(self, payload: str) -> None:
        await self._call("send_raw", payload=payload)

    async def end_streams(self, code: str = "OK") -> None:
        await self._call("end_streams", code=code)

    async def jump(self, seconds: float) -> None:
        await self._call("jump", seconds=seconds)

    async def state(self) -> DriverState:
        return _STATE.validate_python(await self._call("state"))

    async def close(self) -> None:
        """Ends the connection; the driver goes on."""
        self._listener.cancel()
        await asyncio.wait([self._listener])
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    async def _call(self, call: str, **args: Any) -> Any:
        if self._listener.done():
            raise ControlFailed(f"{call}: the driver is gone")
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        request = {"id": number, "call": call, "args": to_jsonable_python(args)}
        self._writer.write(json.dumps(request).encode() + b"\n")
        try:
            return await answer
        finally:
            del self._waiting[number]

    async def _listen(self) -> None:
        try:
            while line := await self._reader.readline():
                self._take(json.loads(line))
        finally:
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(ControlFailed("the driver is gone"))

    def _take(self, message: dict[str, Any]) -> None:
        if "event" in message:
            self._observe(Record(message["at"], from_json(message["event"])))
            return
        waiting = self._waiting.get(message["id"])
        if waiting is None or waiting.done():
            return
        if "error" in message:
            waiting.set_exception(ControlFailed(message["error"]))
        else:
            waiting.set_result(message.get("result"))
