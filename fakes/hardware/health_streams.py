"""The health half of a fake driver: its devices' health, and the open streams that are told of it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace
from itertools import count
from typing import Any

import grpc.aio

from drahealth.proto.events import Observe, ReportSent, StreamClosed, StreamOpened
from drahealth.proto.flavours import FLAVOURS, V1, Flavour
from drahealth.proto.services import Method
from drahealth.proto.values import DeviceHealth, Health, Report

_serial = count(1)


class _Told:
    """A report on its way to one stream."""

    def __init__(self, devices: Report, complete: bool) -> None:
        self.devices = devices
        self.complete = complete


class _End:
    def __init__(self, code: grpc.StatusCode) -> None:
        self.code = code


class HealthStreams:
    """Serves any number of streams, of all the flavours asked for, from one state."""

    def __init__(self, driver: str, instance: str, devices: Iterable[DeviceHealth], observe: Observe) -> None:
        self.driver = driver
        self.instance = instance
        self.quiet = False
        self.opened = 0
        self._observe = observe
        self._health = {(device.pool, device.device): device for device in devices}
        self._queues: dict[str, asyncio.Queue[_Told | _End | bytes]] = {}

    @property
    def open(self) -> int:
        return len(self._queues)

    def methods(self, served: Iterable[str]) -> dict[Method, Callable[..., Any]]:
        """Handlers for all health APIs; those that are not served answer Unimplemented, and count as opened."""
        names = set(served)
        return {f.method: self._serve(f) if f.name in names else self._refuse(f) for f in FLAVOURS.values()}

    def get(self, pool: str, device: str) -> DeviceHealth:
        """The device's health. Raises ValueError, naming those that there are, if there is no such device."""
        try:
            return self._health[pool, device]
        except KeyError:
            names = ", ".join(f"{p}/{d}" for p, d in self._health)
            raise ValueError(f"driver {self.driver} has no device {pool}/{device}; it has {names}") from None

    def set(self, device: DeviceHealth) -> None:
        """The device is so from now on; told at once in a complete report. ValueError for what no message can say."""
        self.get(device.pool, device.device)
        V1.encode_device(device)
        self._health[device.pool, device.device] = device
        self.tell_all()

    def tell_all(self) -> None:
        """Sends a complete report to every stream, unless the driver is quiet."""
        if not self.quiet:
            self._put(_Told(tuple(self._health.values()), complete=True))

    def tell(self, devices: Iterable[DeviceHealth], *, complete: bool) -> None:
        """Sends just this to every stream. ValueError for what no message can say."""
        told = _Told(tuple(devices), complete)
        V1.encode(told.devices)
        self._put(told)

    def send_raw(self, payload: bytes) -> None:
        """Sends these bytes to every stream."""
        self._put(payload)

    def end(self, code: grpc.StatusCode) -> None:
        """Ends every open stream, after what is under way."""
        self._put(_End(code))

    def _put(self, what: _Told | _End | bytes) -> None:
        for queue in self._queues.values():
            queue.put_nowait(what)

    def _serve(self, flavour: Flavour) -> Callable[..., AsyncIterator[Any]]:
        async def watch(_: Any, context: "grpc.aio.ServicerContext[Any, Any]") -> AsyncIterator[Any]:
            stream = f"{self.driver}#{next(_serial)}"
            why = "cancelled by the kubelet, or the connection ended"
            self.opened += 1
            queue: asyncio.Queue[_Told | _End | bytes] = asyncio.Queue()
            self._queues[stream] = queue
            self._observe(StreamOpened(self.driver, self.instance, stream, flavour.name))
            if not self.quiet:
                queue.put_nowait(_Told(tuple(self._health.values()), complete=True))
            try:
                while not isinstance(told := await queue.get(), _End):
                    yield self._encode(told, flavour, stream)
                why = f"ended by the driver with {told.code.name}"
                if told.code is not grpc.StatusCode.OK:
                    await context.abort(told.code, "ended on purpose")
            finally:
                del self._queues[stream]
                self._observe(StreamClosed(self.driver, self.instance, stream, why))

        return watch

    def _refuse(self, flavour: Flavour) -> Callable[..., AsyncIterator[Any]]:
        async def watch(_: Any, context: "grpc.aio.ServicerContext[Any, Any]") -> AsyncIterator[Any]:
            self.opened += 1
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"{flavour.name} is not served")
            yield  # what makes it a stream

        return watch

    def _encode(self, told: "_Told | bytes", flavour: Flavour, stream: str) -> Any:
        if isinstance(told, bytes):
            return told
        # What the flavour does not carry was not said.
        said = tuple(_as_carried(device, flavour) for device in told.devices)
        self._observe(ReportSent(self.driver, self.instance, stream, said, told.complete))
        return flavour.encode(told.devices)


def healthy(pool: str, device: str, timeout: int) -> DeviceHealth:
    """How a device begins."""
    return DeviceHealth(pool, device, Health.HEALTHY, timeout=timeout)


def _as_carried(device: DeviceHealth, flavour: Flavour) -> DeviceHealth:
    return device if "message" in flavour.carries else replace(device, message="")
