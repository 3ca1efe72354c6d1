"""The health streams of a driver instance."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import grpc.aio
from google.protobuf.message import DecodeError

from drahealth.fakes.kubelet_plugin.health_streams.report_encoder import ReportEncoder
from drahealth.fakes.kubelet_plugin.health_streams.stream_faults import KINDS, StreamFaults
from drahealth.fakes.kubelet_plugin.health_streams.stream_queue import StreamQueue
from drahealth.fakes.kubelet_plugin.health_streams.table import HealthTable
from drahealth.proto.clock import Clock, SystemClock
from drahealth.proto.events import CANCELLED, Observe, ReportSent, StreamClosed, StreamOpened
from drahealth.proto.health_apis import HEALTH_APIS, V1, HealthApi, Prepared
from drahealth.proto.services import Method
from drahealth.proto.values import DeviceHealth, Report

_serial = count(1)


@dataclass(frozen=True, eq=False, slots=True)
class _QueuedReport:
    """A report to send."""

    devices: Report
    complete: bool
    coalesces: bool = False
    """A newer complete report may replace it in the queue."""


@dataclass(frozen=True)
class _Stream:
    health_api: HealthApi
    queue: StreamQueue[_QueuedReport | bytes]


class HealthStreams:
    """Serves any number of streams, in several health APIs, from one health table.

    `prepared()` returns the devices of prepared claims; some health APIs list only these. `faults` are the stream
    faults.
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
        requests: Counter[str] | None = None,
    ) -> None:
        self.driver = driver
        self.instance = instance
        self.table = table
        """The reported health of the devices."""
        self.silenced = False
        """The driver sends no reports."""
        self.partial = False
        """Changes are sent in partial reports, not in complete ones."""
        self.skew = 0
        """Seconds added to the driver's timestamps."""
        self.faults = StreamFaults(seed)
        self.requests: Counter[str] = Counter() if requests is None else requests
        """Number of stream requests by health API; instances can share the counter."""
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
        """Total number of stream requests."""
        return self.requests.total()

    @property
    def active_faults(self) -> tuple[str, ...]:
        """The current stream faults, as short text."""
        found = [f"{kind} {value:g}" for kind, value in self.faults.values.items()]
        found += ["silence"] if self.silenced else []
        found += ["partial"] if self.partial else []
        found += [f"skew {self.skew} s"] if self.skew else []
        return tuple(found)

    def methods(self, served: Iterable[str]) -> dict[Method, Callable[..., Any]]:
        """Handlers of all health APIs; an API that is not served counts the request and answers Unimplemented."""
        names = set(served)
        return {f.method: self._serve(f) if f.name in names else self._reject(f) for f in HEALTH_APIS.values()}

    def all(self) -> Report:
        """The reported health of all devices, in order."""
        return self.table.all()

    def report_changes(self, changed: Report, *, coalesces: bool) -> None:
        """Sends changed devices, in a complete report or, with `partial`, in a partial one."""
        if not self.partial:
            self._send_complete(self._streams.values(), coalesces)
        elif not self.silenced:
            self._put(_QueuedReport(changed, complete=False))

    def report_all(self) -> None:
        """Sends a complete report to every stream, unless the driver is silenced."""
        self._send_complete(self._streams.values(), coalesces=True)

    def report_prepared(self) -> None:
        """Sends a complete report to the streams that list prepared devices: these have changed."""
        concerned = (stream for stream in self._streams.values() if stream.health_api.prepared_only)
        self._send_complete(concerned, coalesces=False)

    def send(self, devices: Iterable[DeviceHealth], *, complete: bool) -> None:
        """Sends exactly these devices to every stream. ValueError for a value that no message can encode."""
        report = _QueuedReport(tuple(devices), complete)
        V1.encode(report.devices)
        self._put(report)

    def send_raw(self, payload: bytes) -> None:
        """Sends these bytes to every stream."""
        self._put(payload)

    def end(self, code: grpc.StatusCode) -> None:
        """Ends every open stream, after the messages that are due."""
        for stream in self._streams.values():
            stream.queue.close(code)

    def set_fault(self, kind: str, value: float) -> None:
        """Adds a stream fault (see `stream_faults`, or silence, partial, skew). ValueError for an unknown one."""
        match kind:
            case "silence":
                self.silenced = bool(value)
            case "partial":
                self.partial = bool(value)
            case "skew":
                self.skew = int(value)
            case _:
                self.faults.set(kind, value)
        self._wake()

    def clear_fault(self, kind: str) -> None:
        """Clears a stream fault."""
        match kind:
            case "silence":
                self.silenced = False
            case "partial":
                self.partial = False
            case "skew":
                self.skew = 0
            case _:
                self.faults.clear(kind)
        self._wake()

    def clear_faults(self) -> None:
        """Clears all stream faults."""
        for kind in ("silence", "partial", "skew", *KINDS):
            self.clear_fault(kind)

    def _wake(self) -> None:
        for stream in self._streams.values():
            stream.queue.faults_changed()

    def _put(self, message: _QueuedReport | bytes) -> None:
        for stream in self._streams.values():
            stream.queue.put(message)

    def _send_complete(self, streams: Iterable[_Stream], coalesces: bool) -> None:
        receivers = [] if self.silenced else list(streams)
        if not receivers:
            return
        report = _QueuedReport(self.table.listed(), complete=True, coalesces=coalesces)
        for stream in receivers:
            stream.queue.put(report)

    def _newest(self) -> _QueuedReport:
        return _QueuedReport(self.table.listed(), complete=True, coalesces=True)

    def _serve(self, health_api: HealthApi) -> Callable[..., AsyncIterator[Any]]:
        async def watch(_: Any, context: "grpc.aio.ServicerContext[Any, Any]") -> AsyncIterator[Any]:
            number = next(_serial)
            stream = f"{self.driver}#{number}"
            why = CANCELLED
            self.requests[health_api.name] += 1
            queue = StreamQueue[_QueuedReport | bytes](
                *(stream, self.faults, self._clock, self.requests.total(), self._newest),
                coalesces=_coalesces,
                size=_size,
            )
            mine = self._streams[stream] = _Stream(health_api, queue)
            self._observe(StreamOpened(self.driver, self.instance, stream, health_api.name))
            self._send_complete([mine], coalesces=True)
            try:
                async for report in queue.messages():
                    if isinstance(report, bytes):
                        why = f"{CANCELLED}, after bytes of a command"
                    yield self._encode(report, health_api, stream)
                code = queue.end or grpc.StatusCode.OK
                why = f"ended by the driver with {code.name}"
                if code is not grpc.StatusCode.OK:
                    await context.abort(code, "ended by a command")
            finally:
                del self._streams[stream]
                self._observe(StreamClosed(self.driver, self.instance, stream, why))

        return watch

    def _reject(self, health_api: HealthApi) -> Callable[..., AsyncIterator[Any]]:
        async def watch(_: Any, context: "grpc.aio.ServicerContext[Any, Any]") -> AsyncIterator[Any]:
            self.requests[health_api.name] += 1
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"{health_api.name} is not served")
            yield  # makes the function a generator

        return watch

    def _observe_raw(self, payload: bytes, health_api: HealthApi, stream: str) -> None:
        """Emits an event for raw bytes that are a valid message."""
        with suppress(DecodeError):
            report = health_api.decode(health_api.method.response.FromString(payload))
            self._observe(ReportSent(self.driver, self.instance, stream, report, complete=False))

    def _encode(self, report: "_QueuedReport | bytes", health_api: HealthApi, stream: str) -> Any:
        if isinstance(report, bytes):
            self._observe_raw(report, health_api, stream)
            return report
        prepared = self._prepared() if health_api.prepared_only else {}
        listed = report.devices
        if self.skew:
            listed = tuple(replace(device, updated=device.updated + self.skew) for device in listed)
        if report.complete and health_api.prepared_only:
            listed = tuple(device for device in listed if (device.pool, device.device) in prepared)
        # The event holds only fields that the health API carries.
        sent = health_api.all_as_carried(listed)
        self._observe(ReportSent(self.driver, self.instance, stream, sent, report.complete))
        if report.complete and not health_api.prepared_only:
            return self._encoders.setdefault(health_api.name, ReportEncoder(health_api)).encode(listed)
        return health_api.encode(listed, prepared)


def _coalesces(message: _QueuedReport | bytes) -> bool:
    return isinstance(message, _QueuedReport) and message.coalesces


def _size(message: _QueuedReport | bytes) -> int:
    """Devices in a message; for raw bytes an estimate."""
    return len(message.devices) if isinstance(message, _QueuedReport) else 1 + len(message) // 100
