"""The health half of a driver instance: the open streams and the reports sent to them."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import grpc.aio
from google.protobuf.message import DecodeError

from drahealth.fakes.health.outlet import Outlet
from drahealth.fakes.health.report_encoder import ReportEncoder
from drahealth.fakes.health.stream_faults import KINDS, StreamFaults
from drahealth.fakes.health.table import HealthTable
from drahealth.proto.clock import Clock, SystemClock
from drahealth.proto.events import Observe, ReportSent, StreamClosed, StreamOpened
from drahealth.proto.health_apis import HEALTH_APIS, V1, HealthApi, Prepared
from drahealth.proto.services import Method
from drahealth.proto.values import DeviceHealth, Report

_serial = count(1)


@dataclass(frozen=True, eq=False, slots=True)
class _Told:
    """A report to be sent to streams."""

    devices: Report
    complete: bool
    coalesces: bool = False
    """A newer complete report may take its place while it waits for who listens."""


@dataclass(frozen=True)
class _Stream:
    health_api: HealthApi
    outlet: Outlet[_Told | bytes]


class HealthStreams:
    """Serves any number of streams of all requested health APIs, with the health from one table.

    `prepared()` gives the devices of prepared claims; some health APIs list only these. `faults` are the stream faults.
    """

    def __init__(
        self,
        driver: str,
        instance: str,
        table: HealthTable,
        observe: Observe,
        prepared: Callable[[], Prepared] = dict,
        clock: Clock | None = None,
        seed: int = 0,
        asked: Counter[str] | None = None,
    ) -> None:
        self.driver = driver
        self.instance = instance
        self.table = table
        """What is said of the devices."""
        self.quiet = False
        self.partial = False
        """Changes are told by themselves, not in complete reports."""
        self.skew = 0
        """Seconds by which the driver's own times are off."""
        self.faults = StreamFaults(seed)
        self.asked: Counter[str] = Counter() if asked is None else asked
        """How often a stream was asked for, by the health API's name; instances may count together."""
        self._observe = observe
        self._prepared = prepared
        self._clock = clock or SystemClock()
        self._streams: dict[str, _Stream] = {}
        self._encoders: dict[str, ReportEncoder] = {}
        table.add(self)

    @property
    def open(self) -> int:
        return len(self._streams)

    @property
    def opened(self) -> int:
        """The total number of stream requests."""
        return self.asked.total()

    @property
    def wrong(self) -> tuple[str, ...]:
        """The current stream faults, in a few words each."""
        found = [f"{kind} {value:g}" for kind, value in self.faults.values.items()]
        found += ["silence"] if self.quiet else []
        found += ["partial"] if self.partial else []
        found += [f"skew {self.skew} s"] if self.skew else []
        return tuple(found)

    def methods(self, served: Iterable[str]) -> dict[Method, Callable[..., Any]]:
        """Handlers for all health APIs by name. Those that are not served answer Unimplemented, and are counted."""
        names = set(served)
        return {f.method: self._serve(f) if f.name in names else self._refuse(f) for f in HEALTH_APIS.values()}

    def all(self) -> Report:
        """The reported health of each device, in order."""
        return self.table.all()

    def tell_changes(self, changed: Report, *, coalesces: bool) -> None:
        """Reports changed devices: in a complete report, or alone (`partial`)."""
        if not self.partial:
            self._tell_those(self._streams.values(), coalesces)
        elif not self.quiet:
            self._put(_Told(changed, complete=False))

    def tell_all(self) -> None:
        """Sends a complete report to every stream, unless the driver is silent."""
        self._tell_those(self._streams.values(), coalesces=True)

    def tell_prepared(self) -> None:
        """Sends a complete report to streams of health APIs that list prepared devices, after these have changed."""
        concerned = (stream for stream in self._streams.values() if stream.health_api.prepared_only)
        self._tell_those(concerned, coalesces=False)

    def tell(self, devices: Iterable[DeviceHealth], *, complete: bool) -> None:
        """Sends these devices to every stream. Raises ValueError if no message can hold them."""
        told = _Told(tuple(devices), complete)
        V1.encode(told.devices)
        self._put(told)

    def send_raw(self, payload: bytes) -> None:
        """Sends these bytes to every stream."""
        self._put(payload)

    def end(self, code: grpc.StatusCode) -> None:
        """Ends every open stream, after the messages that are due."""
        for stream in self._streams.values():
            stream.outlet.close(code)

    def set_fault(self, kind: str, value: float) -> None:
        """Adds a stream fault (see `stream_faults`, or silence, partial, skew). ValueError for an unknown one."""
        match kind:
            case "silence":
                self.quiet = bool(value)
            case "partial":
                self.partial = bool(value)
            case "skew":
                self.skew = int(value)
            case _:
                self.faults.set(kind, value)
        self._wake()

    def restore(self, kind: str) -> None:
        """Removes a stream fault."""
        match kind:
            case "silence":
                self.quiet = False
            case "partial":
                self.partial = False
            case "skew":
                self.skew = 0
            case _:
                self.faults.restore(kind)
        self._wake()

    def restore_all(self) -> None:
        """Removes all stream faults."""
        for kind in ("silence", "partial", "skew", *KINDS):
            self.restore(kind)

    def _wake(self) -> None:
        for stream in self._streams.values():
            stream.outlet.changed()

    def _put(self, what: _Told | bytes) -> None:
        for stream in self._streams.values():
            stream.outlet.put(what)

    def _tell_those(self, streams: Iterable[_Stream], coalesces: bool) -> None:
        there = [] if self.quiet else list(streams)
        if not there:
            return
        told = _Told(self.table.listed(), complete=True, coalesces=coalesces)
        for stream in there:
            stream.outlet.put(told)

    def _newest(self) -> _Told:
        return _Told(self.table.listed(), complete=True, coalesces=True)

    def _serve(self, health_api: HealthApi) -> Callable[..., AsyncIterator[Any]]:
        async def watch(_: Any, context: "grpc.aio.ServicerContext[Any, Any]") -> AsyncIterator[Any]:
            number = next(_serial)
            stream = f"{self.driver}#{number}"
            why = "cancelled by the kubelet, or the connection ended"
            self.asked[health_api.name] += 1
            outlet = Outlet[_Told | bytes](
                *(stream, self.faults, self._clock, self.asked.total(), self._newest), coalesces=_coalesces, size=_size
            )
            mine = self._streams[stream] = _Stream(health_api, outlet)
            self._observe(StreamOpened(self.driver, self.instance, stream, health_api.name))
            self._tell_those([mine], coalesces=True)
            try:
                async for told in outlet.messages():
                    yield self._encode(told, health_api, stream)
                code = outlet.end or grpc.StatusCode.OK
                why = f"ended by the driver with {code.name}"
                if code is not grpc.StatusCode.OK:
                    await context.abort(code, "ended on purpose")
            finally:
                del self._streams[stream]
                self._observe(StreamClosed(self.driver, self.instance, stream, why))

        return watch

    def _refuse(self, health_api: HealthApi) -> Callable[..., AsyncIterator[Any]]:
        async def watch(_: Any, context: "grpc.aio.ServicerContext[Any, Any]") -> AsyncIterator[Any]:
            self.asked[health_api.name] += 1
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"{health_api.name} is not served")
            yield  # what makes it a stream

        return watch

    def _observe_raw(self, payload: bytes, health_api: HealthApi, stream: str) -> None:
        """Emits an event for the devices in raw bytes, if they are a valid message."""
        with suppress(DecodeError):
            report = health_api.decode(health_api.method.response.FromString(payload))
            self._observe(ReportSent(self.driver, self.instance, stream, report, complete=False))

    def _encode(self, told: "_Told | bytes", health_api: HealthApi, stream: str) -> Any:
        if isinstance(told, bytes):
            self._observe_raw(told, health_api, stream)
            return told
        prepared = self._prepared() if health_api.prepared_only else {}
        listed = told.devices
        if self.skew:
            listed = tuple(replace(device, updated=device.updated + self.skew) for device in listed)
        if told.complete and health_api.prepared_only:
            listed = tuple(device for device in listed if (device.pool, device.device) in prepared)
        # What the health API does not carry was not said.
        said = health_api.all_as_carried(listed)
        self._observe(ReportSent(self.driver, self.instance, stream, said, told.complete))
        if told.complete and not health_api.prepared_only:
            return self._encoders.setdefault(health_api.name, ReportEncoder(health_api)).encode(listed)
        return health_api.encode(listed, prepared)


def _coalesces(message: _Told | bytes) -> bool:
    return isinstance(message, _Told) and message.coalesces


def _size(message: _Told | bytes) -> int:
    """The number of devices in a message; for bytes, an estimate."""
    return len(message.devices) if isinstance(message, _Told) else 1 + len(message) // 100
