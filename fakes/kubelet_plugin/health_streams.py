"""The health streams of a driver instance: their queues, encoded reports and faults."""

import asyncio
import logging
import math
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random
from typing import Any, Generic, Literal, TypeVar, get_args

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from drahealth.fakes.kubelet_plugin.health_table import HealthTable
from drahealth.fakes.waiting import first_of
from drahealth.proto.clock import Clock, SystemClock
from drahealth.proto.events import CANCELLED, Observe, ReportSent, StreamClosed, StreamOpened
from drahealth.proto.health_apis import HEALTH_APIS, V1, HealthApi, Prepared
from drahealth.proto.services import Method
from drahealth.proto.values import DeviceHealth, Report

# Encode reports as the bytes of a health API, and reuse the bytes of unchanged devices.
#
# A report of thousands of devices with one change costs as much as one device. A protobuf message with one repeated
# field is the concatenation of its entries, so the encoder keeps the entry of each device.


class ReportEncoder:
    """Encodes the reports of one driver for one health API that does not list prepared claims."""

    def __init__(self, health_api: HealthApi) -> None:
        self._health_api = health_api
        self._report: Report = ()
        self._parts: Sequence[bytes] = ()
        self._message = b""

    def encode(self, report: Report) -> bytes:
        """The encoded response message of these devices; reuses the result for the last report."""
        if report is not self._report:
            self._parts = self._changed(report) if len(report) == len(self._report) else self._others(report)
            self._report = report
            self._message = b"".join(self._parts)
        return self._message

    def _changed(self, report: Report) -> Sequence[bytes]:
        """Parts of a report with the same devices in the same order."""
        known = zip(report, self._report, self._parts, strict=True)
        return [part if device is before else self._part(device) for device, before, part in known]

    def _others(self, report: Report) -> Sequence[bytes]:
        # The last report is still held, so an equal id is the same device.
        known = dict(zip(map(id, self._report), self._parts, strict=True))
        return [known.get(id(device)) or self._part(device) for device in report]

    def _part(self, device: DeviceHealth) -> bytes:
        return bytes(self._health_api.encode((device,)).SerializeToString())


# Faults of health streams: messages that arrive late, twice, not at all or out of order.
#
# Pure: the time is an argument, and random draws come from a seed. `StreamFaults` holds the faults of a driver's
# streams. A `Pipe` is one stream: messages enter, and leave when they are due.

Message = TypeVar("Message")

Kind = Literal["stall", "delay", "drop", "duplicate", "reorder"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""stall: hold all messages until the fault is cleared · delay: send each message so many seconds later ·
drop, duplicate, reorder: lose, repeat, or swap with its successor this share of the messages (0 to 1)."""


@dataclass
class StreamFaults:
    """The current faults. The same seed and messages give the same draws."""

    seed: int = 0
    values: dict[str, float] = field(default_factory=dict)

    def set(self, kind: str, value: float = 1.0) -> None:
        """Sets a fault. Raises ValueError for an unknown kind, a share above 1 or a negative delay."""
        if kind not in KINDS:
            raise ValueError(f"unknown stream fault {kind!r}; valid: {', '.join(KINDS)}")
        is_share = kind in ("drop", "duplicate", "reorder")
        if not 0 <= value < math.inf or (is_share and value > 1):
            expected = "a share between 0 and 1" if is_share else "a finite number, at least 0"
            raise ValueError(f"{kind} must be {expected}, got {value:g}")
        self.values[kind] = value

    def clear(self, kind: str) -> None:
        """Clears a fault; does nothing if it is not set."""
        self.values.pop(kind, None)

    def __getitem__(self, kind: Kind) -> float:
        return self.values.get(kind, 0.0)


@dataclass(frozen=True, slots=True)
class Due(Generic[Message]):
    """A message that is due."""

    message: Message
    plain: bool
    """No fault changed it, except by a delay."""


class Pipe(Generic[Message]):
    """One stream. `put` messages, `take` those that are due, and call again at `due`."""

    def __init__(self, faults: StreamFaults, number: int = 0) -> None:
        self._faults = faults
        self._random = Random(f"{faults.seed}/{number}")
        self._waiting: deque[tuple[float, Due[Message]]] = deque()
        self._swapped: Message | None = None

    def put(self, message: Message, now: float) -> int:
        """Adds a message; returns how often it will leave the pipe.

        The draws for a message do not depend on the current faults.
        """
        drop, twice, swap = (self._random.random() for _ in range(3))
        if drop < self._faults["drop"]:
            return 0
        when = now + self._faults["delay"]
        copies = 2 if twice < self._faults["duplicate"] else 1
        if self._swapped is None and swap < self._faults["reorder"] and copies == 1:
            self._swapped = message
            return 1
        plain = copies == 1 and self._swapped is None and not self._faults["stall"]
        self._waiting.extend([(when, Due(message, plain))] * copies)
        if self._swapped is not None:
            self._waiting.append((when, Due(self._swapped, plain=False)))
            self._swapped = None
        return copies

    def forget_last(self) -> Message | None:
        """Removes and returns the last waiting message; None if no message waits."""
        return self._waiting.pop()[1].message if self._waiting else None

    def take(self, now: float) -> list[Due[Message]]:
        """Removes and returns the due messages, in order. A message never overtakes an earlier delayed one."""
        if self._faults["stall"]:
            return []
        out = []
        while self._waiting and self._waiting[0][0] <= now:
            out.append(self._waiting.popleft()[1])
        if self._swapped is not None and not self._faults["reorder"] and not self._waiting:
            out.append(Due(self._swapped, plain=False))  # the reorder fault is cleared
            self._swapped = None
        return out

    @property
    def due(self) -> float:
        """Time at which the next message is due; infinite if there is none."""
        return self._waiting[0][0] if self._waiting and not self._faults["stall"] else math.inf


# The queue of one open health stream, on the driver's side. Messages leave in order, unless a stream fault applies.
#
# A slow client does not receive outdated reports: while a message is being sent, a new complete report replaces the
# queued one. Partial reports, and messages that a stream fault changed (stalled, duplicated, reordered), all stay
# queued.
#
# A queue holds at most `MAX_MESSAGES` messages, with `MAX_DEVICES` devices together. A message beyond that is
# dropped, and the newest complete report replaces the last queued message. So a slow client still receives the last
# state.


MAX_MESSAGES, MAX_DEVICES = 100_000, 10_000_000
"""Limits of a stream's queue: messages, and devices in all messages. A full queue takes about 100 MB."""

log = logging.getLogger(__name__)


class StreamQueue(Generic[Message]):
    """A queue of messages, subject to the driver's stream faults. `end`: the code the stream ended with, or None.

    `coalesces(message)`: whether the next such message may replace this one. `size(message)`: devices it lists.
    `newest()`: the complete report of the current state. `limits`: messages and devices in the queue.
    """

    def __init__(
        self,
        name: str,
        faults: StreamFaults,
        clock: Clock,
        number: int,
        newest: Callable[[], Message],
        *,
        coalesces: Callable[[Message], bool] = lambda _: False,
        size: Callable[[Message], int] = lambda _: 1,
        limits: tuple[int, int] = (MAX_MESSAGES, MAX_DEVICES),
    ) -> None:
        self.end: grpc.StatusCode | None = None
        self.dropped = 0
        """Number of messages dropped because the queue was full."""
        self._name = name
        self._newest = newest
        self._size = size
        self._limits = limits
        self._messages = self._devices = 0
        """Messages and devices in the queue, in the pipe and ready."""
        self._pipe = Pipe[Message](faults, number)
        self._clock = clock
        self._coalesces = coalesces
        self._ready: OrderedDict[int, Message] = OrderedDict()
        self._replaceable: set[int] = set()
        """Numbers of the ready messages that a newer one may replace."""
        self._numbers = count()
        self._sending = False
        self._woken = asyncio.Event()

    def put(self, message: Message) -> None:
        """Queues a message."""
        if self.end is None:
            if self._messages >= self._limits[0] or self._devices + self._size(message) > self._limits[1]:
                message = self._drop_last()
            self._count(message, self._pipe.put(message, self._clock.now()))
            if self._sending:
                self._gather()
            self._woken.set()

    def close(self, code: grpc.StatusCode) -> None:
        """Ends the stream with this code, after all messages that are due."""
        self.end = self.end or code
        self._woken.set()

    def faults_changed(self) -> None:
        """The driver's stream faults have changed: check again which messages are due."""
        self._woken.set()

    async def messages(self) -> AsyncIterator[Message]:
        """The messages to send, until the stream ends."""
        while True:
            self._woken.clear()
            for found in self._pipe.take(self._clock.now()):
                self._enqueue(found)
            while self._ready:
                message = self._remove(next(iter(self._ready)))
                self._sending = True
                yield message
                self._sending = False
                self._gather()
            if self._woken.is_set():
                continue
            if self.end is not None:
                return
            await self._wait()

    def _gather(self) -> None:
        """Queues messages that became due while a message was being sent."""
        for found in self._pipe.take(self._clock.now()):
            if found.plain and self._coalesces(found.message):
                for older in tuple(self._replaceable):
                    self._remove(older)
            self._enqueue(found)

    def _enqueue(self, due: Due[Message]) -> None:
        number = next(self._numbers)
        self._ready[number] = due.message
        if due.plain and self._coalesces(due.message):
            self._replaceable.add(number)

    def _remove(self, number: int) -> Message:
        """Removes a message from the queue and returns it."""
        message = self._ready.pop(number)
        self._replaceable.discard(number)
        self._count(message, -1)
        return message

    def _drop_last(self) -> Message:
        """Drops the last queued message; returns the newest complete report, which replaces it."""
        if not self.dropped:
            log.warning(
                "stream %s: the queue is full (%d messages, %d devices); further messages are dropped "
                "and replaced by the newest complete report",
                *(self._name, self._messages, self._devices),
            )
        self.dropped += 1
        if (last := self._pipe.forget_last()) is not None:
            self._count(last, -1)
        elif self._ready:
            self._remove(next(reversed(self._ready)))
        return self._newest()

    def _count(self, message: Message, times: int) -> None:
        self._messages += times
        self._devices += times * self._size(message)

    async def _wait(self) -> None:
        """Waits until a message is queued, stream faults change, or the next message is due."""
        due = self._pipe.due
        if math.isinf(due):
            await self._woken.wait()
            return
        await first_of(self._woken.wait(), self._clock.sleep(due - self._clock.now()))


# The health streams of a driver instance.

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
        """Adds a stream fault (see `StreamFaults`, or silence, partial, skew). ValueError for an unknown one."""
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
