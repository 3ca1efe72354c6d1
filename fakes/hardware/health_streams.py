"""The health half of a fake driver: its devices' health, and the open streams that are told of it."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import grpc.aio

from drahealth.proto.events import Observe, ReportSent, StreamClosed, StreamOpened
from drahealth.proto.flavours import FLAVOURS, V1, Flavour, Prepared
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


@dataclass(frozen=True)
class _Stream:
    flavour: Flavour
    queue: "asyncio.Queue[_Told | _End | bytes]" = field(default_factory=asyncio.Queue)


class HealthStreams:
    """Serves any number of streams, of all the flavours asked for, from one state.

    `prepared()` has the devices of prepared claims: the only ones that some flavours list.
    """

    def __init__(
        self,
        driver: str,
        instance: str,
        devices: Iterable[DeviceHealth],
        observe: Observe,
        prepared: Callable[[], Prepared] = dict,
    ) -> None:
        self.driver = driver
        self.instance = instance
        self.quiet = False
        self.asked: Counter[str] = Counter()
        self._observe = observe
        self._health = {(device.pool, device.device): device for device in devices}
        self._prepared = prepared
        self._streams: dict[str, _Stream] = {}

    @property
    def open(self) -> int:
        return len(self._streams)

    @property
    def opened(self) -> int:
        """How often a stream was asked for."""
        return self.asked.total()

    def methods(self, served: Iterable[str]) -> dict[Method, Callable[..., Any]]:
        """Handlers for all flavours, by name; those that are not served answer Unimplemented, and are counted."""
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
        V1.encode([device])
        self._health[device.pool, device.device] = device
        self.tell_all()

    def tell_all(self) -> None:
        """Sends a complete report to every stream, unless the driver is quiet."""
        self._tell_those(self._streams.values())

    def tell_prepared(self) -> None:
        """The same to the streams whose reports list what is prepared: that has changed."""
        self._tell_those(stream for stream in self._streams.values() if stream.flavour.prepared_only)

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
        for stream in self._streams.values():
            stream.queue.put_nowait(what)

    def _tell_those(self, streams: Iterable[_Stream]) -> None:
        told = _Told(tuple(self._health.values()), complete=True)
        for stream in () if self.quiet else streams:
            stream.queue.put_nowait(told)

    def _serve(self, flavour: Flavour) -> Callable[..., AsyncIterator[Any]]:
        async def watch(_: Any, context: "grpc.aio.ServicerContext[Any, Any]") -> AsyncIterator[Any]:
            stream = f"{self.driver}#{next(_serial)}"
            why = "cancelled by the kubelet, or the connection ended"
            self.asked[flavour.name] += 1
            mine = self._streams[stream] = _Stream(flavour)
            self._observe(StreamOpened(self.driver, self.instance, stream, flavour.name))
            self._tell_those([mine])
            try:
                while not isinstance(told := await mine.queue.get(), _End):
                    yield self._encode(told, flavour, stream)
                why = f"ended by the driver with {told.code.name}"
                if told.code is not grpc.StatusCode.OK:
                    await context.abort(told.code, "ended on purpose")
            finally:
                del self._streams[stream]
                self._observe(StreamClosed(self.driver, self.instance, stream, why))

        return watch

    def _refuse(self, flavour: Flavour) -> Callable[..., AsyncIterator[Any]]:
        async def watch(_: Any, context: "grpc.aio.ServicerContext[Any, Any]") -> AsyncIterator[Any]:
            self.asked[flavour.name] += 1
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"{flavour.name} is not served")
            yield  # what makes it a stream

        return watch

    def _encode(self, told: "_Told | bytes", flavour: Flavour, stream: str) -> Any:
        if isinstance(told, bytes):
            return told
        prepared = self._prepared() if flavour.prepared_only else {}
        listed = told.devices
        if told.complete and flavour.prepared_only:
            listed = tuple(device for device in listed if (device.pool, device.device) in prepared)
        # What the flavour does not carry was not said.
        said = tuple(map(flavour.as_carried, listed))
        self._observe(ReportSent(self.driver, self.instance, stream, said, told.complete))
        return flavour.encode(listed, prepared)


def healthy(pool: str, device: str, timeout: int) -> DeviceHealth:
    """How a device begins."""
    return DeviceHealth(pool, device, Health.HEALTHY, timeout=timeout)
