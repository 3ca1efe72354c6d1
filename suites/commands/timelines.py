"""`drahealth plan` and `record`: the plan of a timeline, and the health stream of a driver as a timeline."""

import asyncio
import json
import math
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import grpc.aio
import typer

from drahealth.fakes.inventory.devices import Inventory
from drahealth.fakes.inventory.file import load_inventory
from drahealth.fakes.program.user_files import FileError
from drahealth.fakes.timelines.build import dump, set_, stream, timeline
from drahealth.fakes.timelines.load import timeline_schema
from drahealth.fakes.timelines.model import Step, Timeline
from drahealth.fakes.timelines.play import stories
from drahealth.proto.clock import Clock, SystemClock
from drahealth.proto.health_apis import HEALTH_APIS, HealthApi
from drahealth.proto.services import GET_INFO, MalformedMessage
from drahealth.proto.sockets import target
from drahealth.proto.values import DeviceHealth
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.output_paths import check_output_file

app = typer.Typer()


# Record the health stream of a running driver, as a kubelet watches it, as a timeline.
#
# A silenced fake driver that plays the timeline sends the same messages at the same times. Timestamps in the messages
# are stored relative to the time of their message.

PATIENCE = 10.0
"""Seconds to connect to the driver, and for each response except stream messages."""


@dataclass(frozen=True, slots=True)
class StreamMessage:
    """A message of the stream, or its end."""

    at: float
    """Seconds since the stream was opened."""
    wall: float
    data: bytes = b""
    code: str = ""
    """The gRPC status code that the stream ended with."""


@dataclass(frozen=True, slots=True)
class Recording:
    """The messages of one health stream of a driver."""

    driver: str
    health_api: HealthApi
    messages: tuple[StreamMessage, ...]

    def timeline(self) -> Timeline:
        """The recording as a timeline for a fake driver."""
        # finite, and longer than all messages
        lasts = math.ceil(max((message.at for message in self.messages), default=0.0)) + 1
        steps = [set_(heartbeat="0s"), stream(silence=f"{lasts}s"), *self._steps()]
        about = f"recorded from {self.driver or 'a driver'}, {self.health_api.name}"
        return timeline(f"health stream of {self.driver or 'a driver'}", steps, description=about)

    def _steps(self) -> Iterator[Step]:
        for message in self.messages:
            when: Any = {"at": f"{round(message.at * 1000)}ms"}
            yield stream(when, close=message.code) if message.code else stream(when, send=self._message(message))

    def _message(self, message: StreamMessage) -> dict[str, Any]:
        """The devices of a message, or its raw bytes if it contains anything else."""
        try:
            report = self.health_api.decode(self.health_api.method.response.FromString(message.data))
        except Exception:  # protobuf raises various errors for invalid bytes
            return {"raw": message.data.hex()}
        if self.health_api.encode(report).SerializeToString() != message.data:
            return {"raw": message.data.hex()}
        return {"devices": [_device(device, message.wall) for device in report]}


def _device(device: DeviceHealth, wall: float) -> dict[str, Any]:
    fields: dict[str, Any] = {"device": device.device, "pool": device.pool, "health": str(device.health)}
    fields |= {"message": device.message} if device.message else {}
    fields |= {"timeout": _offset(device.timeout)} if device.timeout else {}
    return fields | ({"updated": _offset(device.updated - math.floor(wall))} if device.updated else {})


def _offset(seconds: int) -> str:
    return f"{'-' if seconds < 0 else ''}{abs(seconds)}s"


class Recorder:
    """Records the driver behind a registration socket or its own socket. It keeps the messages after an error."""

    def __init__(
        self, socket: Path, *, seconds: float = math.inf, messages: int | None = None, clock: Clock | None = None
    ) -> None:
        self._socket = socket
        self._clock = clock or SystemClock()
        self._seconds = seconds
        self._messages = messages
        self._driver = ""
        self._health_api = next(iter(HEALTH_APIS.values()))
        self._received: list[StreamMessage] = []

    def recording(self) -> Recording:
        """The recording so far."""
        return Recording(self._driver, self._health_api, tuple(self._received))

    async def listen(self) -> None:
        """Record for `seconds`, for `messages`, or until the driver ends the stream.

        Raises HarnessError if the driver does not respond or has no health stream, ConfigurationError if the path is
        not a socket.
        """
        if not await asyncio.to_thread(self._socket.is_socket):
            problem = "is not a socket" if self._socket.exists() else "does not exist"
            raise ConfigurationError(f"{self._socket} {problem}", "pass the socket of a running driver")
        self._driver, endpoint, versions = await _ask(self._socket)
        async with grpc.aio.insecure_channel(_target(endpoint)) as channel:
            await _reach(channel, endpoint)
            for self._health_api in HEALTH_APIS.values():
                if versions is None or self._health_api.advertised in versions:
                    self._received.clear()
                    await self._listen(channel)
                    if not self._received or self._received[0].code != "UNIMPLEMENTED":
                        return
        known = ", ".join(HEALTH_APIS)
        raise HarnessError(
            f"the driver at {self._socket} serves none of the health APIs", f"it must serve one of {known}"
        )

    async def _listen(self, channel: grpc.aio.Channel) -> None:
        watch: Any = channel.unary_stream(self._health_api.method.path)
        call, began = watch(b""), self._clock.now()

        def receive(data: bytes = b"", code: str = "") -> None:
            self._received.append(StreamMessage(self._clock.now() - began, self._clock.wall(), data, code))

        try:
            async with asyncio.timeout(None if math.isinf(self._seconds) else self._seconds):
                async for data in call:
                    receive(data)
                    if len(self._received) == self._messages:
                        return
                receive(code="OK")
        except TimeoutError:
            pass
        except grpc.aio.AioRpcError as error:
            receive(code=error.code().name)
        finally:
            call.cancel()


async def _ask(socket: Path) -> tuple[str, Path, tuple[str, ...] | None]:
    """The driver's name, its own socket, and its advertised versions; None without a registration service."""
    async with grpc.aio.insecure_channel(_target(socket)) as channel:
        await _reach(channel, socket)
        try:
            info = await GET_INFO.stub(channel)(GET_INFO.request(), timeout=PATIENCE)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                return "", socket, None
            raise HarnessError(f"GetInfo failed at {socket}: {error.details()}") from None
        except MalformedMessage as error:
            raise HarnessError(f"{socket} is not a plugin socket: {error}") from None
    return info.name, Path(info.endpoint or socket), tuple(info.supported_versions)


async def _reach(channel: grpc.aio.Channel, socket: Path) -> None:
    try:
        await asyncio.wait_for(channel.channel_ready(), PATIENCE)
    except TimeoutError:
        raise HarnessError(f"no response at {socket}", "pass the socket of a running driver") from None


def _target(socket: Path) -> str:
    try:
        return target(socket)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None


# The output of `drahealth plan` and `drahealth record`.


@app.command()
def record(
    socket: Annotated[
        Path, typer.Argument(help="Registration socket of the driver, or the socket of its health service.")
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Output file; default: standard output.", show_default=False)
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0.001, help="Stop after this number of seconds.", show_default=False)
    ] = None,
    messages: Annotated[
        int | None, typer.Option(min=1, help="Stop after this number of messages.", show_default=False)
    ] = None,
) -> None:
    """Record the health reports of a driver as a timeline, until the health stream ends, or until Ctrl-C."""
    check_output_file(str(output) if output else None)
    recorder = Recorder(socket, seconds=seconds or math.inf, messages=messages)
    with suppress(KeyboardInterrupt):
        asyncio.run(recorder.listen())
    recording = recorder.recording()
    text = dump(recording.timeline())
    if output:
        output.write_text(text, encoding="utf-8")
        sys.stderr.write(f"{len(recording.messages)} messages of {recording.health_api.name} in {output}\n")
    else:
        sys.stdout.write(text)


@app.command()
def plan(
    file: Annotated[Path | None, typer.Argument(help="The timeline file.", show_default=False)] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of random values; default: the seed of the file.")] = None,
    devices: Annotated[int, typer.Option(min=1, help="Number of GPUs, if the file has no inventory.")] = 2,
    partitions: Annotated[
        int, typer.Option(min=0, help="Number of partitions of each GPU, if the file has no inventory.")
    ] = 0,
    inventory: Annotated[
        Path | None, typer.Option(help="Inventory file; default: the inventory that the timeline names.")
    ] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print only the JSON Schema of timelines.")] = False,
) -> None:
    """Print the actions of a timeline, with their times, as JSON lines. The same file and seed give the same plan."""
    if schema:
        sys.stdout.write(json.dumps(timeline_schema(), indent=1) + "\n")
        return
    if file is None:
        raise ConfigurationError("missing argument FILE", "pass a timeline, or --schema")
    lines: list[str] = []
    try:
        there = load_inventory(inventory) if inventory else Inventory.of(devices, partitions=partitions)
        for story in stories(file, seed=seed, inventory=there):
            lines += story.plan.to_lines()
    except FileError as error:
        raise ConfigurationError(str(error)) from None
    except OSError as error:
        raise ConfigurationError(f"{error.filename or file} cannot be read: {error.strerror}") from None
    with suppress(BrokenPipeError):  # the reader has closed the pipe
        sys.stdout.writelines(line + "\n" for line in lines)
        sys.stdout.flush()
