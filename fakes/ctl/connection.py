"""The client of a control socket (`control.wire`), for commands that send a request and exit.

It is synchronous and imports only the standard library, so that `drahealth ctl` starts fast.
"""

import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import typer

from drahealth.fakes.control.definition import Command, Kind, Subject, defined, with_subcommand
from drahealth.fakes.control.socket_path import VARIABLE
from drahealth.fakes.program.errors import CommandError
from drahealth.proto.quoting import one_line

PATIENCE = 60.0
"""Seconds to wait for an answer. A starting driver may wait 30 s for its API server."""
_LOOK = 0.5
"""The most seconds for which a wait for events can miss Ctrl-C: a signal just before a system call does not end the
call."""


class Connection:
    """A session with a driver's process. Closing the connection ends it.

    Raises CommandError with code 2 for a rejected command, and 3 without an answer or for an error in the environment.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last = 0
        self._socket = _connected(path)
        self._received = bytearray()
        self._patience = PATIENCE
        self._socket.settimeout(self._patience)
        self._send({"attach": os.urandom(8).hex(), "brief": True})
        self._answer()

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._socket.close()

    def call(self, name: str, driver: int | None = None, /, **args: Any) -> Any:
        """Calls a command and returns its reply."""
        self._last += 1
        self._send({"id": self._last, "driver": driver, "call": name, "args": args})
        while True:
            answer = self._answer()
            if answer.get("id") == self._last:
                return answer.get("result")

    def extend_timeout(self, seconds: float) -> None:
        """Adds the duration of the next command to the time limit of its answer."""
        self._patience = PATIENCE + max(seconds, 0.0)
        self._socket.settimeout(self._patience)

    def news(self) -> Iterator[dict[str, Any]]:
        """The events, until the process ends."""
        self._socket.settimeout(_LOOK)
        with suppress(ConnectionResetError):
            while True:
                try:
                    line = self._line()
                except TimeoutError:
                    continue
                if not line:
                    return
                message = json.loads(line)
                if message.get("news"):
                    yield message

    def _send(self, data: Any) -> None:
        try:
            self._socket.sendall(json.dumps(data).encode() + b"\n")
        except TimeoutError as error:
            raise self._lost(error) from None
        except OSError:  # the process has closed the connection; it may have sent the reason before
            self._answer()
            raise self._lost(None) from None

    def _line(self) -> bytes:
        """The next line, or nothing at the end. What has come of a line stays when it raises TimeoutError."""
        seen = 0
        while (end := self._received.find(b"\n", seen)) < 0:
            seen = len(self._received)
            if not (chunk := self._socket.recv(1 << 16)):
                end = seen - 1
                break
            self._received += chunk
        line = bytes(self._received[: end + 1])
        del self._received[: end + 1]
        return line

    def _answer(self) -> dict[str, Any]:
        try:
            line = self._line()
            answer: dict[str, Any] = json.loads(line) if line else {}
        except OSError as error:
            raise self._lost(error) from None
        except ValueError:
            raise CommandError(f"the process at {self._path} is not `drahealth driver serve`", 3) from None
        if not answer:
            raise self._lost(None)
        if answer.get("error") is not None:
            raise CommandError(one_line(str(answer["error"]), 2000), 3 if answer.get("environment") else 2)
        return answer

    def _lost(self, error: OSError | None) -> CommandError:
        if isinstance(error, TimeoutError):
            return CommandError(f"no answer within {self._patience:g} s at {self._path}", 3)
        return CommandError(f"the process at {self._path} has ended before it answered", 3)


def _connected(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(PATIENCE)
    try:
        connection.connect(str(path))
    except OSError as error:
        connection.close()
        raise _unreachable(path, error) from None
    return connection


def _unreachable(path: Path, error: OSError) -> CommandError:
    where = one_line(str(path))
    start = f"use `drahealth up` or `drahealth driver serve -f FILE`, or pass a socket with --socket or {VARIABLE}"
    if isinstance(error, FileNotFoundError):
        return CommandError(f"no socket {where}; {start}", 3)
    if isinstance(error, ConnectionRefusedError):
        return CommandError(f"no process serves {where}; {start}", 3)
    if isinstance(error, PermissionError):
        return CommandError(f"only the owner of {where} can use it; run as that user", 3)
    return CommandError(f"{where} cannot be connected to: {error.strerror or error}; {start}", 3)


# The driver or device plugin that a subcommand is for.


class Driver:
    """The driver or device plugin at the other end of a connection."""

    def __init__(self, connection: Connection, described: dict[str, Any]) -> None:
        self.connection = connection
        self.described = described
        self.name: str = described["name"]
        self.subject: Subject = described.get("kind", "driver")

    @property
    def is_plugin(self) -> bool:
        return self.subject == "device-plugin"

    @property
    def words(self) -> str:
        """What it is and its name, such as `driver gpu.example.com`."""
        return f"{self.subject.replace('-', ' ')} {self.name}"

    def select(self, devices: str | tuple[str, ...], selection: Mapping[str, str | float]) -> tuple[str, ...]:
        """The paths of those of the devices that the options of `ctl` select. Raises CommandError."""
        if self.is_plugin:
            raise CommandError(f"{self.words} has no racks and shares; remove --{next(iter(selection))}")
        paths = self.connection.call("select", self.described["driver"], device=devices, **selection)
        return tuple(paths)

    def do(self, command: Command[Any]) -> Any:
        """Does the command; returns its reply as plain data. Raises CommandError."""
        timed = [argument.name for argument in command.definition.arguments if argument.kind is Kind.DURATION]
        self.connection.extend_timeout(sum(getattr(command, name) for name in timed))
        return self.connection.call(command.verb, self.described["driver"], **command.stated())


@contextmanager
def driver_of(context: typer.Context) -> Iterator[Driver]:
    """The one that the options name, for as long as it is entered. Raises CommandError, also where that is a device
    plugin without this subcommand."""
    path, name, _ = context.obj
    subcommand = context.command_path.partition(" ctl ")[2]  # such as `inject`, or `stream drop`
    with Connection(path) as connection:
        driver = Driver(connection, connection.call("use", name=name))
        if subcommand != "set" and driver.subject not in with_subcommand(subcommand):
            has = [*(known.ctl for known in defined(driver.subject) if known.ctl), "set"]
            raise CommandError(f"{driver.words} has no `{subcommand}`; it has {', '.join(has)}")
        yield driver
