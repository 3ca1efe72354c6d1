"""The health streams: opened, reports, closed. And whether the driver has health at all."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from drahealth.proto.events import MalformedReceived, ReportReceived, StreamClosed, StreamOpened
from drahealth.proto.health_apis import HEALTH_APIS, HealthApi
from drahealth.proto.values import DeviceHealth
from drahealth.suites.checking.evidence import Evidence, Observation
from drahealth.suites.checking.observed.devices import Device
from drahealth.suites.checking.observed.registrations import advertised, described

OURS = "cancelled by drahealth"
"""Why a stream ended that drahealth cancelled."""
BY_MANAGER = "ended by the manager"
"""Why a stream ended that the reference ended."""
FIRST_REPORT = 5.0
"""Seconds from the start of a stream to its first report."""
OWN_DELAY = 1.0
"""Seconds by which drahealth itself may receive a message late, on a busy machine."""
FIRST_REPORT_WAIT = FIRST_REPORT + OWN_DELAY
"""Seconds for which experiments wait for the first report of a stream, and after which checks take it as late."""


@dataclass(frozen=True, slots=True)
class Stream:
    """One health stream."""

    experiment: str
    id: str
    api: HealthApi
    opened: Observation[StreamOpened]
    reports: list[Observation[ReportReceived]] = field(default_factory=list)
    malformed: list[Observation[MalformedReceived]] = field(default_factory=list)
    closed: list[Observation[StreamClosed]] = field(default_factory=list)

    @property
    def end(self) -> Observation[StreamClosed] | None:
        """How it ended; None if the evidence does not show it."""
        return self.closed[0] if self.closed else None

    @property
    def cancelled(self) -> bool:
        """Whether drahealth ended it."""
        return self.end is not None and self.end.what.why == OURS

    @property
    def ended_by_driver(self) -> bool:
        """Whether it ended, and neither drahealth nor the reference ended it."""
        why = self.end.what.why if self.end else OURS
        return not why.startswith((OURS, BY_MANAGER))

    @property
    def open_seconds(self) -> float:
        """Seconds from its start to its end; to its last report if the end is missing."""
        ends = [one.at for one in (*self.reports, *self.closed)]
        return max(ends, default=self.opened.at) - self.opened.at

    @property
    def first_is_late(self) -> bool:
        """Whether the first report came too late, or did not come although the stream was open long enough."""
        if self.reports:
            return self.reports[0].at - self.opened.at > FIRST_REPORT_WAIT
        return self.open_seconds >= FIRST_REPORT_WAIT - 0.1

    def __str__(self) -> str:
        return f"stream {self.id} ({self.api.name})"


def streams(evidence: Evidence, *experiments: str) -> list[Stream]:
    """The health streams of these experiments, in the order in which they were opened."""
    found: dict[tuple[str, str], Stream] = {}
    for record in evidence.records:
        what = record.what
        if experiments and record.experiment not in experiments:
            continue
        if isinstance(what, StreamOpened) and what.health_api in HEALTH_APIS:
            opened = Observation(record.number, record.at, record.experiment, what)
            key = (record.experiment, what.stream)
            found.setdefault(key, Stream(*key, HEALTH_APIS[what.health_api], opened))
        elif not isinstance(what, ReportReceived | MalformedReceived | StreamClosed):
            continue
        elif stream := found.get((record.experiment, what.stream)):
            _add(stream, Observation(record.number, record.at, record.experiment, what))
    return list(found.values())


def _add(stream: Stream, record: "Observation[ReportReceived | MalformedReceived | StreamClosed]") -> None:
    number, at, experiment, what = record.number, record.at, record.experiment, record.what
    match what:
        case ReportReceived():
            stream.reports.append(Observation(number, at, experiment, what))
        case MalformedReceived():
            stream.malformed.append(Observation(number, at, experiment, what))
        case StreamClosed():
            stream.closed.append(Observation(number, at, experiment, what))


def device_of(reported: DeviceHealth) -> Device:
    """The identity of a reported device."""
    return Device(reported.pool, reported.device)


def listed(report: Observation[ReportReceived]) -> frozenset[Device]:
    """The devices of a report."""
    return frozenset(map(device_of, report.what.devices))


def arrivals(stream: Stream) -> dict[Device, list[tuple[float, int, DeviceHealth]]]:
    """When each device was reported, in order: time, record and content."""
    found: dict[Device, list[tuple[float, int, DeviceHealth]]] = {}
    for report in stream.reports:
        for one in report.what.devices:
            found.setdefault(device_of(one), []).append((report.at, report.number, one))
    return found


def is_served(stream: Stream) -> bool:
    """Whether the driver accepted the stream: it reported, or the stream stayed open until drahealth cancelled it."""
    return bool(stream.reports) or stream.cancelled


def served_apis(evidence: Evidence) -> dict[str, Stream]:
    """The health APIs that the driver serves, with the stream of `services` that shows it."""
    return {one.api.name: one for one in streams(evidence, "services") if is_served(one)}


def absence(evidence: Evidence) -> tuple[str, tuple[int, ...]] | None:
    """Why the driver has no health, with the records that prove it: each API was called and answered Unimplemented."""
    info, called = described(evidence), streams(evidence, "services")
    if info is None or {one.api.name for one in called} != set(HEALTH_APIS) or not all(map(_unimplemented, called)):
        return None
    names = sorted(advertised(evidence) & {api.advertised for api in HEALTH_APIS.values()})
    start = f"{', '.join(names)} is advertised, but" if names else "health is not advertised, and"
    return f"{start} each health API answers Unimplemented", (
        info.number,
        *_numbers(one.end for one in called),
    )


def _unimplemented(stream: Stream) -> bool:
    return not stream.reports and stream.end is not None and stream.end.what.code == "UNIMPLEMENTED"


def _numbers(records: "Iterable[Observation[StreamClosed] | None]") -> Iterator[int]:
    return (one.number for one in records if one)
