"""Watches the health stream of a driver that runs, as a kubelet does, and writes what it says as a timeline.

Played on a fake driver that says nothing by itself, the timeline gives the same stream: the same messages, after the
same times. Times of the driver's own are kept as how old they were.
"""

import asyncio
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc.aio

from drahealth.fakes.timelines.build import set_, stream, timeline
from drahealth.fakes.timelines.model import Step, Timeline
from drahealth.proto.clock import Clock, SystemClock
from drahealth.proto.health_apis import HEALTH_APIS, HealthApi
from drahealth.proto.services import GET_INFO, MalformedMessage
from drahealth.proto.sockets import target
from drahealth.proto.values import DeviceHealth
from drahealth.suites.errors import ConfigurationError, HarnessError

PATIENCE = 10.0
"""Seconds to reach the driver, and for each of its answers but those of the stream."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A message of the stream, or its end."""

    at: float
    """Seconds since the stream was opened."""
    wall: float
    data: bytes = b""
    code: str = ""
    """The gRPC status code that the stream ended with."""


@dataclass(frozen=True, slots=True)
class Recording:
    """What was heard of a driver over one stream."""

    driver: str
    health_api: HealthApi
    heard: tuple[Heard, ...]

    def timeline(self) -> Timeline:
        """The same as a story for a fake driver."""
        lasts = math.ceil(max((heard.at for heard in self.heard), default=0.0)) + 1  # longer, but not for ever
        steps = [set_(heartbeat="0s"), stream(silence=f"{lasts}s"), *self._steps()]
        about = f"recorded from {self.driver or 'a driver'}, {self.health_api.name}"
        return timeline(f"what {self.driver or 'a driver'} said", steps, description=about)

    def _steps(self) -> Iterator[Step]:
        for heard in self.heard:
            when: Any = {"at": f"{round(heard.at * 1000)}ms"}
            yield stream(when, close=heard.code) if heard.code else stream(when, send=self._message(heard))

    def _message(self, heard: Heard) -> dict[str, Any]:
        """As devices, if these are all that it says; else as the bytes that it is."""
        try:
            report = self.health_api.decode(self.health_api.method.response.FromString(heard.data))
        except Exception:  # whatever protobuf thinks of bytes that are no message
            return {"raw": heard.data.hex()}
        if self.health_api.encode(report).SerializeToString() != heard.data:
            return {"raw": heard.data.hex()}
        return {"devices": [_said(device, heard.wall) for device in report]}


def _said(device: DeviceHealth, wall: float) -> dict[str, Any]:
    said: dict[str, Any] = {"device": device.device, "pool": device.pool, "health": str(device.health)}
    said |= {"message": device.message} if device.message else {}
    said |= {"timeout": _offset(device.timeout)} if device.timeout else {}
    return said | ({"updated": _offset(device.updated - math.floor(wall))} if device.updated else {})


def _offset(seconds: int) -> str:
    return f"{'-' if seconds < 0 else ''}{abs(seconds)}s"


class Recorder:
    """Listens to the driver behind a registration socket or its own, and keeps what it hears, however that ends."""

    def __init__(
        self, socket: Path, *, seconds: float = math.inf, messages: int | None = None, clock: Clock | None = None
    ) -> None:
        self._socket = socket
        self._clock = clock or SystemClock()
        self._seconds = seconds
        self._messages = messages
        self._driver = ""
        self._health_api = next(iter(HEALTH_APIS.values()))
        self._heard: list[Heard] = []

    def recording(self) -> Recording:
        """What was heard so far."""
        return Recording(self._driver, self._health_api, tuple(self._heard))

    async def listen(self) -> None:
        """For so long, for so many messages, or until the driver ends the stream.

        Raises HarnessError for a driver that does not answer or has no health stream, ConfigurationError for what is no
        socket.
        """
        if not await asyncio.to_thread(self._socket.is_socket):
            raise ConfigurationError(f"{self._socket} is no socket", "name that of a driver that runs")
        self._driver, endpoint, versions = await _ask(self._socket)
        async with grpc.aio.insecure_channel(_target(endpoint)) as channel:
            await _reach(channel, endpoint)
            for self._health_api in HEALTH_APIS.values():
                if versions is None or self._health_api.advertised in versions:
                    self._heard.clear()
                    await self._listen(channel)
                    if not self._heard or self._heard[0].code != "UNIMPLEMENTED":
                        return
        raise HarnessError(f"the driver at {self._socket} has no health stream", "it serves none of the health APIs")

    async def _listen(self, channel: grpc.aio.Channel) -> None:
        watch: Any = channel.unary_stream(self._health_api.method.path)
        call, began = watch(b""), self._clock.now()

        def hear(data: bytes = b"", code: str = "") -> None:
            self._heard.append(Heard(self._clock.now() - began, self._clock.wall(), data, code))

        try:
            async with asyncio.timeout(None if math.isinf(self._seconds) else self._seconds):
                async for data in call:
                    hear(data)
                    if len(self._heard) == self._messages:
                        return
                hear(code="OK")
        except TimeoutError:
            pass
        except grpc.aio.AioRpcError as error:
            hear(code=error.code().name)
        finally:
            call.cancel()


async def _ask(socket: Path) -> tuple[str, Path, tuple[str, ...] | None]:
    """The driver's name, its own socket and what it advertises; of the latter None if it was not asked."""
    async with grpc.aio.insecure_channel(_target(socket)) as channel:
        await _reach(channel, socket)
        try:
            info = await GET_INFO.stub(channel)(GET_INFO.request(), timeout=PATIENCE)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                return "", socket, None
            raise HarnessError(f"the plugin at {socket} does not say what it is: {error.details()}") from None
        except MalformedMessage as error:
            raise HarnessError(f"what answers at {socket} is no plugin: {error}") from None
    return info.name, Path(info.endpoint or socket), tuple(info.supported_versions)


async def _reach(channel: grpc.aio.Channel, socket: Path) -> None:
    try:
        await asyncio.wait_for(channel.channel_ready(), PATIENCE)
    except TimeoutError:
        raise HarnessError(f"nobody answers at {socket}", "name the socket of a driver that runs") from None


def _target(socket: Path) -> str:
    try:
        return target(socket)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
