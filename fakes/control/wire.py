"""The control surface as JSON lines, over sockets and standard streams."""

import asyncio
import json
import logging
import os
import stat
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from drahealth.fakes.control.definition import Command, Subject, dataclass_of, definition
from drahealth.fakes.program.errors import plain
from drahealth.proto.events import Record, from_json

# Commands as JSON: their arguments on the way to a fake, and its reply on the way back.

Reply = TypeVar("Reply")


def encode(command: Command[Any]) -> dict[str, Any]:
    """Its arguments as JSON has them."""
    plain: dict[str, Any] = to_jsonable_python(command.arguments())
    return plain


def decode(subject: Subject, name: str, args: Mapping[str, Any]) -> Command[Any]:
    """The command of that name with these arguments. Raises ValueError for an unknown command and wrong arguments."""
    found: Any = dataclass_of(definition(subject, name).command)
    try:
        command: Command[Any] = _adapter(found).validate_python(args)
    except ValidationError as error:
        raise ValueError(wrong_arguments(error)) from None
    return command


def encode_reply(reply: Any) -> Any:
    """As JSON has it."""
    return to_jsonable_python(reply)


def decode_reply(command: Command[Reply], reply: Any) -> Reply:
    """What the fake has replied. Raises ValueError for something else."""
    decoded: Reply = _adapter(command.definition.reply).validate_python(reply)
    return decoded


def wrong_arguments(error: ValidationError) -> str:
    """The error in arguments, in one sentence."""
    return "; ".join(": ".join(filter(None, (".".join(map(str, e["loc"])), _why(e)))) for e in error.errors())


def _why(error: Any) -> str:
    return str(error["ctx"]["error"]) if error["type"] == "value_error" else plain(str(error["msg"]))


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


# The control surface as JSON lines, for drivers in another process or in a pod.
#
#     -> {"attach": "a-session", "seen": 0, "calls": 0}      first on every connection: whose session, and how far it is
#     <- {"attached": {"now": 812.5, "taken": 0}}
#     -> {"id": 1, "call": "make", "args": {"options": {"name": "gpu.example.com", ...}}}
#     <- {"seq": 1, "id": 1, "result": 1}
#     -> {"id": 2, "driver": 1, "call": "set_health", "args": {"device": "gpu-0", "health": "Unhealthy"}, "seen": 1}
#     <- {"seq": 2, "driver": 1, "at": 812.6, "event": {"event": "report-sent", ...}}
#     <- {"seq": 3, "id": 2, "result": null}          or {"seq": 3, "id": 2, "error": "driver ... has no device ..."}
#
# The calls of a driver are the commands of `commands`, whose fields are `args`. A device plugin is made by
# `make_plugin`, and is a driver in every other respect here.
#
# An error of the environment, such as an unavailable API server, has `"environment": true`.
#
# The client numbers its calls, and the server numbers its lines; `seen` is the last line that the client received. A
# session may outlive its connection: a client that attaches again receives the lines after `seen`, and repeats the
# calls after `taken`. The server answers each call when it ends, so a long call delays no other. `at` and `now` are
# the monotonic time of the drivers' machine, in seconds.
#
# All sessions share the drivers of an inventory file:
#
#     -> {"id": 1, "call": "use", "args": {"name": "gpu.example.com"}}      by no name: the only one
#     <- {"seq": 1, "id": 1, "result": {"driver": 1, "name": "gpu.example.com", "node": "node-a", ...}}
#     -> {"id": 2, "call": "watch", "args": {"driver": 1}}
#     <- {"seq": 0, "driver": 1, "at": 812.6, "news": {"event": "change", "driver": "gpu.example.com", ...}}
#
# A client adds a driver to them. The driver is served until `end`, or until its namespace is deleted:
#
#     -> {"id": 3, "call": "add", "args": {"options": {"name": "gpu-2.example.com", ...}, "namespace": "test"}}
#     -> {"id": 4, "call": "end", "args": {"name": "gpu-2.example.com"}}
#
# Events for clients that watch (`news.py`) have no number and are not repeated; `left_out` lines before one were too
# many for the connection. A session that attaches with `"brief": true` ends with its connection.

LINE_LIMIT = 16 * 1024 * 1024
"""Bytes of one line; a report of ten thousand devices is about two million."""


class Writer(Protocol):
    """The end of a connection that is written to, as `asyncio.StreamWriter` has it."""

    def write(self, data: bytes) -> None: ...
    def is_closing(self) -> bool: ...
    def close(self) -> None: ...
    async def wait_closed(self) -> None: ...


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Attach(_Line):
    """The first line of a connection."""

    attach: str = Field(min_length=1, max_length=100)
    seen: int = 0
    calls: int = 0
    """How many calls were made in this session so far."""
    brief: bool = False
    """The session ends with this connection."""


class Attached(_Line):
    """The answer to it."""

    now: float
    taken: int
    """The number of the last call that came."""


class Request(_Line):
    """A call, of a driver or of the session."""

    id: int = Field(ge=1)
    call: str
    args: dict[str, Any] = {}
    driver: int | None = None
    seen: int = 0


class Seen(_Line):
    """Nothing but how far one is."""

    seen: int


class MalformedLine(Exception):
    """A line that is not what it should be; the text is the error message."""


def waiting(writer: Writer) -> int:
    """Bytes that wait for the other end of a connection to be read."""
    transport = getattr(writer, "transport", None)
    return transport.get_write_buffer_size() if transport else 0


def to_line(data: Any) -> bytes:
    """One line of JSON."""
    return json.dumps(data).encode() + b"\n"


def read_attach(line: bytes) -> Attach:
    """The first line of a connection. Raises MalformedLine."""
    try:
        return Attach.model_validate_json(line)
    except ValidationError:
        raise MalformedLine('the first line must be {"attach": SESSION}') from None


def read_request(line: bytes) -> Request | Seen:
    """A later line. Raises MalformedLine."""
    try:
        return Seen.model_validate_json(line)
    except ValidationError:
        pass
    try:
        return Request.model_validate_json(line)
    except ValidationError:
        raise MalformedLine("a call must be a JSON object with id, call and args, on one line") from None


def read_attached(line: bytes) -> Attached:
    """The other side's answer to `Attach`. Raises MalformedLine, also with what it refuses."""
    try:
        answer = json.loads(line)
        if "error" in answer:
            raise MalformedLine(str(answer["error"]))
        return Attached.model_validate(answer["attached"])
    except (ValueError, TypeError, KeyError, RecursionError):
        raise MalformedLine(_strange(line)) from None


class DriverLine(_Line):
    """What the drivers' side says: an event of a driver, or the answer to a call."""

    seq: int
    id: int | None = None
    result: Any = None
    error: str | None = None
    environment: bool = False
    """The error is of what is around, such as the API server, and not of what was asked."""
    driver: int | None = None
    at: float | None = None
    event: dict[str, Any] | None = None
    news: dict[str, Any] | None = None
    left_out: int = 0

    def record(self, offset: float) -> Record | None:
        """The event, at our own time, which is `offset` seconds ahead of theirs."""
        if self.event is None or self.at is None:
            return None
        return Record(self.at + offset, from_json(self.event))


def read_driver_line(line: bytes) -> DriverLine:
    """A line of the drivers' side. Raises MalformedLine."""
    try:
        parsed = DriverLine.model_validate_json(line)
        parsed.record(0)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise MalformedLine(_strange(line)) from None
    return parsed


def _strange(line: bytes) -> str:
    return f"the driver sent an invalid reply: {line.decode(errors='replace').strip()[:200]!r}"


# Standard input and output as a connection, whatever they are: pipes, sockets, terminals, plain files.

log = logging.getLogger(__name__)


async def standard_streams(limit: int) -> tuple[asyncio.StreamReader, Writer]:
    """Both, for lines of at most `limit` bytes."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=limit)
    if _is_a_file(sys.stdin.fileno()):
        reader.feed_data(sys.stdin.buffer.read())
        reader.feed_eof()
    else:
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    if _is_a_file(sys.stdout.fileno()):
        return reader, FileWriter(sys.stdout.fileno())
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


def _is_a_file(number: int) -> bool:
    """Nobody is waited for at its other end, so an event loop has no use for it; /dev/null is of that kind too."""
    found = os.fstat(number)
    return stat.S_ISREG(found.st_mode) or os.path.samestat(found, os.stat(os.devnull))  # noqa: PTH116  (a number, too)


class FileWriter:
    """Writes to a plain file. After a failure, which is logged, it discards data, like a closed connection."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._closing = False

    def write(self, data: bytes) -> None:
        """Returns when all is written, or cannot be."""
        left = memoryview(data)
        try:
            while left and not self._closing:
                left = left[os.write(self._number, left) :]
        except OSError as error:
            log.error("standard output cannot be written: %s; further lines are dropped", error.strerror)
            self.close()

    def is_closing(self) -> bool:
        """Nothing more is written."""
        return self._closing

    def close(self) -> None:
        """What is written from now on goes nowhere."""
        self._closing = True

    async def wait_closed(self) -> None:
        """It is closed at once."""
