"""Lanes: what happened to each device over time, as data for a picture. Pure.

A lane has a bar for each health API, with the reports of its longest stream, and one for the Pod statuses. Streams of
the same API that differ in lateness get a bar of their own.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from drahealth.proto.events import ExperimentStarted
from drahealth.proto.values import DeviceHealth, Health
from drahealth.suites.certifying.report.bars import Bar, Span, Stretch, merged
from drahealth.suites.certifying.report.fault_bars import fault_bars
from drahealth.suites.certifying.report.list_bars import list_bars, pod_bars
from drahealth.suites.certifying.report.marks import Mark, marks
from drahealth.suites.checking.evidence import Evidence
from drahealth.suites.checking.observed.devices import Device
from drahealth.suites.checking.observed.streams import Stream, arrivals, listed, streams
from drahealth.suites.checking.observed.timeouts import timeout_of

LANES = 40
"""The most lanes of a run. Devices with findings come first, then those that became unhealthy, late or unknown."""
_UNREAD = "slow-subscriber"
"""The experiment that leaves its reports unread: they only seem late."""
_SHORTEST = 1.0
"""Seconds of the shortest stream with a bar, if all its devices are Healthy; many experiments read only one report."""


@dataclass(frozen=True, slots=True)
class Lane:
    """One device."""

    name: str
    bars: tuple[Bar, ...]

    @property
    def is_eventful(self) -> bool:
        """Whether it was ever broken, late, or not healthy."""
        return any(
            bar.faults or bar.late or any(span.health != Health.HEALTHY for span in bar.spans) for bar in self.bars
        )


@dataclass(frozen=True, slots=True)
class Group:
    """The devices of one process of the driver."""

    process: str
    lanes: tuple[Lane, ...]
    marks: tuple[Mark, ...]
    left_out: int = 0
    """Number of its devices without a lane, because there are too many."""

    @property
    def times(self) -> tuple[float, float]:
        """From its first to its last part, in seconds since the start of the run."""
        found = [mark.at for mark in self.marks]
        for bar in (bar for lane in self.lanes for bar in lane.bars):
            found += [at for span in bar.spans for at in (span.start, span.end)]
            found += [at for stretch in (*bar.late, *bar.faults) for at in (stretch.start, stretch.end)]
        return min(found, default=0.0), max(found, default=0.0)


Lanes = tuple[Group, ...]
"""The lanes of a run."""

_Bars = dict[str, dict[str, list[Bar]]]
"""By process of the driver, then by device."""


def lanes_of(evidence: Evidence, suspects: Iterable[str] = ()) -> Lanes:
    """The lanes of a run. `suspects` are texts of findings: the devices that they name come first."""
    process_of = {one.experiment: one.what.process for one in evidence.of(ExperimentStarted)}
    named = _words(suspects)
    found = marks(evidence, process_of)
    groups, free = [], LANES
    for process, bars in _bars_of(evidence, process_of).items():
        lanes = [Lane(name, tuple(each)) for name, each in bars.items()]
        lanes.sort(key=lambda lane: (named.isdisjoint((lane.name, _last(lane.name))), not lane.is_eventful))
        kept = tuple(lanes[:free])
        free -= len(kept)
        if lanes or process in found:
            groups.append(Group(process, kept, found.get(process, ()), len(lanes) - len(kept)))
    return tuple(groups)


def _bars_of(evidence: Evidence, process_of: Mapping[str, str]) -> _Bars:
    found: _Bars = {process: {} for process in process_of.values()}
    watched: dict[str, list[Stream]] = {}
    for stream in streams(evidence):
        if stream.experiment != _UNREAD and (stream.open_seconds >= _SHORTEST or _has_news(stream)):
            watched.setdefault(process_of.get(stream.experiment, ""), []).append(stream)
    for process, device, bar in fault_bars(evidence):
        found.setdefault(process, {}).setdefault(device, []).append(bar)
    for process, each in watched.items():
        for device, bar in stream_bars(each):
            found.setdefault(process, {}).setdefault(device, []).append(bar)
    for experiment, resource, bar in (*list_bars(evidence), *pod_bars(evidence)):
        bars = found.setdefault(process_of.get(experiment, ""), {})
        bars.setdefault(_device(resource, bars), []).append(bar)
    return found


def _has_news(stream: Stream) -> bool:
    return any(one.health != Health.HEALTHY for report in stream.reports for one in report.what.devices)


def _device(resource: str, known: Iterable[str]) -> str:
    """The device of a resource ID; the ID itself if it is unknown.

    It is driver/pool/device, a CDI device ID, or the ID of a device of a device plugin.
    """
    name = resource.rpartition("=")[2] if "=" in resource else resource.partition("/")[2] or resource
    found = [device for device in known if name in (device, _last(device))]
    return found[0] if len(found) == 1 else resource


def _last(device: str) -> str:
    return device.rpartition("/")[2]


def _words(texts: Iterable[str]) -> frozenset[str]:
    """The words of texts: some are names of devices."""
    return frozenset(word.strip("'\"()[]:;,.") for text in texts for word in text.split())


def stream_bars(found: list[Stream]) -> Iterator[tuple[str, Bar]]:
    """The bars of one process, each with its device: of the longest stream of each API, and of those that differ."""
    drawn: dict[tuple[str, str], list[bool]] = {}
    for stream in sorted(found, key=lambda one: -one.open_seconds):
        for device, bar in bars_of(stream):
            lateness = drawn.setdefault((stream.api.name, device), [])
            if not lateness or (bar.late and True not in lateness):
                lateness.append(bool(bar.late))
                yield device, bar


def bars_of(stream: Stream) -> Iterator[tuple[str, Bar]]:
    """The bar of each device of a stream."""
    end = stream.opened.at + stream.open_seconds
    unlisted = _unlisted(stream) if stream.api.prepared_only else {}
    for device, times in arrivals(stream).items():
        stops = [*(at for at, _, _ in times[1:]), end]
        spans, late = [], []
        for (at, _, one), stop in zip(times, stops, strict=True):
            gone = min((time for time in unlisted.get(device, ()) if at < time < stop), default=stop)
            spans.append(Span(at, gone, one.health, one.message))
            if not stream.api.prepared_only and stop - at > timeout_of(one):
                late.append(_late(at, stop, one))
        ticks = tuple(at for at, _, _ in times)
        yield str(device), Bar(f"{stream.api.name}, stream {stream.id}", tuple(merged(spans)), ticks, tuple(late))


def _late(at: float, stop: float, reported: DeviceHealth) -> Stretch:
    return Stretch(
        at + timeout_of(reported), stop, f"no report for {stop - at:.1f} s; timeout {timeout_of(reported)} s"
    )


def _unlisted(stream: Stream) -> dict[Device, list[float]]:
    """When reports no longer listed a device."""
    found: dict[Device, list[float]] = {}
    known: set[Device] = set()
    for report in stream.reports:
        now = listed(report)
        for device in known - now:
            found.setdefault(device, []).append(report.at)
        known |= now
    return found
