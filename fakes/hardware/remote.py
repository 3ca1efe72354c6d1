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

_LAST_WORD = 0.5
"""Seconds that calls under way have for their answer once their connection has ended."""

_STATE = TypeAdapter(DriverState)


class ControlFailed(Exception):
    """The driver refused a call, or is gone; says which call and why."""


class ControlServer:
    """Answers any number of connections with a driver's own methods."""

    def __init__(self, driver: DriverControl) -> None:
        self._calls = {name: validate_call(getattr(driver, name)) for name in CALLS}
        self._writers: set[asyncio.StreamWriter] = set()

    def observe(self, event: Event) -> None:
        """Tells everybody who is connected; the driver's observer."""
        self._write({"at": time.monotonic(), "event": to_json(event)}, self._writers)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves a connection until it ends; calls that are under way then end with it."""
        self._writers.add(writer)
        calls: set[asyncio.Task[None]] = set()
        try:
            while line := await reader.readline():
                calls.add(call := asyncio.create_task(self._answer(line, writer), name="control call"))
                call.add_done_callback(calls.discard)
        except ValueError:  # readline's word for a line over the limit
            self._write({"id": None, "error": f"a line has at most {LINE_LIMIT} bytes"}, {writer})
        except OSError:
            pass  # it ended less politely
        finally:
            self._writers.discard(writer)
            await _end(calls)
            writer.close()

    async def _answer(self, line: bytes, writer: asyncio.StreamWriter) -> None:
        number = None
        try:
            request = _request(line)
            number = request.get("id")
            answer = {"id": number, "result": to_jsonable_python(await self._called(request))}
        except ValidationError as error:
            wrong = (f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
            answer = {"id": number, "error": "; ".join(wrong)}
        except (ValueError, ApiError) as error:
            answer = {"id": number, "error": str(error)}
        except Exception as error:  # whatever it is, who called is waiting for an answer
            answer = {"id": number, "error": f"{type(error).__name__}: {error}"}
        self._write(answer, {writer})

    async def _called(self, request: dict[str, Any]) -> Any:
        call, args = request.get("call"), request.get("args", {})
        if not isinstance(call, str) or call not in self._calls:
            raise ValueError(f"there is no call {call!r}; there are {', '.join(CALLS)}")
        if not isinstance(args, dict):
            raise ValueError(f"args are an object, not {args!r}")
        return await self._calls[call](**args)

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
        self._over = ""
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
        number = next(self._numbers)
        line = json.dumps({"id": number, "call": call, "args": to_jsonable_python(args)}).encode() + b"\n"
        if len(line) > LINE_LIMIT:
            raise ControlFailed(f"{call}: a line has at most {LINE_LIMIT} bytes, this one would have {len(line)}")
        if self._over:
            raise ControlFailed(f"{call}: {self._over}")
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._writer.write(line)
        try:
            return await answer
        except ControlFailed as failed:
            raise ControlFailed(f"{call}: {failed}") from None
        finally:
            del self._waiting[number]

    async def _listen(self) -> None:
        """Takes what the driver says until it says no more, or nothing that can be read."""
        why = "the driver is gone"
        try:
            while line := await self._reader.readline():
                self._take(_message(line))
        except _Unreadable as unreadable:
            why = str(unreadable)
        except ValueError:  # readline's word for a line over the limit
            why = "the driver said a line that is too long to read"
        except OSError:
            pass  # gone less politely
        finally:
            self._over = why
            self._fail(why)

    def _take(self, message: Record | dict[str, Any]) -> None:
        if isinstance(message, Record):
            self._observe(message)
        elif message["id"] is None:
            self._fail(message["error"])
        elif (waiting := self._waiting.get(message["id"])) and not waiting.done():
            if "error" in message:
                waiting.set_exception(ControlFailed(message["error"]))
            else:
                waiting.set_result(message.get("result"))

    def _fail(self, why: str) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ControlFailed(why))


class _Unreadable(Exception):
    """A line of the driver's that is neither an event nor an answer."""


def _message(line: bytes) -> Record | dict[str, Any]:
    try:
        message: dict[str, Any] = json.loads(line)
        if "event" in message:
            return Record(float(message["at"]), from_json(message["event"]))
        if message["id"] is None:
            return {"id": None, "error": str(message["error"])}
        return {**message, "id": int(message["id"])}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        said = line.decode(errors="replace").strip()
        raise _Unreadable(f"the driver said what is no answer: {said[:200]!r}") from None


def _request(line: bytes) -> dict[str, Any]:
    with suppress(ValueError, RecursionError):
        request = json.loads(line)
        if isinstance(request, dict):
            return request
    raise ValueError("a call is a JSON object with id, call and args, on one line")


async def _end(calls: set[asyncio.Task[None]]) -> None:
    if calls:
        _, late = await asyncio.wait(calls, timeout=_LAST_WORD)
        for call in late:
            call.cancel()
        await asyncio.gather(*late, return_exceptions=True)
