"""What happens to fake drivers, told as it happens to whoever listens: short lines of plain data.

    {"event": "report", "stream": "gpu.example.com#1", "devices": 10000, "complete": true}
    {"event": "change", "device": "node-a/gpu-0", "health": "Unhealthy", "message": "XID 79: ..."}
    {"event": "call", "call": "inject", "args": {"fault": "xid/79", "device": "gpu-0"}}

A report names just the devices that are told of as something else than before, however many it lists. Of a device
plugin's list it is the same, and what is in it no more is told of by `unlisted`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from drahealth.proto.events import (
    DevicesListed,
    Event,
    Observe,
    Prepared,
    Registered,
    ReportSent,
    StreamClosed,
    StreamOpened,
    Unprepared,
)
from drahealth.proto.extended_resources import PluginDevice
from drahealth.proto.quoting import one_line
from drahealth.proto.values import DeviceHealth, Health, Report

Line = dict[str, Any]
Hear = Callable[[str, Line], None]
"""Takes a driver's name and a line about it. Lines are shared: not to be changed."""


class News:
    """Tells lines to those who listen. Nothing is made of what nobody hears."""

    def __init__(self) -> None:
        self._hearers: list[Hear] = []

    def add(self, hear: Hear) -> Callable[[], None]:
        """It hears all that is told from now on; returns what ends that."""
        self._hearers.append(hear)

        def end() -> None:
            with suppress(ValueError):
                self._hearers.remove(hear)

        return end

    def tell(self, driver: str, line: Line) -> None:
        """This is so of a driver."""
        for hear in tuple(self._hearers):
            hear(driver, line)

    def observer(self, driver: str) -> Observe:
        """Takes the events of a driver."""
        said = _Said()

        def observe(event: Event) -> None:
            if self._hearers:
                for line in lines_of(event, said):
                    self.tell(driver, line)

        return observe


def line_of_call(name: str, args: Mapping[str, Any]) -> Line:
    """What is told of a call; of what is long only how much it is."""
    return {"event": "call", "call": name, "args": {key: _short(value) for key, value in args.items()}}


_FEW = 4
"""Words of a list that are told one by one."""


def _short(value: Any) -> Any:
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, list) and len(value) <= _FEW and all(isinstance(one, str) for one in value):
        return [one_line(one) for one in value]
    return f"{len(value)} of them" if isinstance(value, list | dict) else value


class _Said:
    """What was last told of each device; of one that nothing was told of, that it is healthy."""

    def __init__(self) -> None:
        self._devices: dict[tuple[str, str], DeviceHealth] = {}
        self._last: Report = ()
        """The last complete report, if nothing else was told since."""
        self._listed: dict[str, str] = {}

    def changed(self, report: Report, *, complete: bool) -> Iterator[DeviceHealth]:
        """The devices that are told of as something else now."""
        last, self._last = self._last, report if complete else ()
        others: Iterable[DeviceHealth] = report
        if len(report) == len(last):  # thousands of devices, of which one is another, cost what a look at each costs
            others = [device for device, before in zip(report, last, strict=True) if device is not before]
        for device in others:
            key = (device.pool, device.device)
            before = self._devices.get(key, DeviceHealth(*key, Health.HEALTHY))
            self._devices[key] = device
            if (before.health, before.message) != (device.health, device.message):
                yield device

    def relisted(self, devices: Iterable[PluginDevice]) -> Iterator[Line]:
        """How a device plugin's list is another than the one before; the devices of the first are taken for Healthy."""
        before, self._listed = self._listed, {device.id: device.health for device in devices}
        unknown = None if before else str(Health.HEALTHY)
        for id_, health in self._listed.items():
            if health != before.get(id_, unknown):
                yield {"event": "change", "device": id_, "health": health, "message": ""}
        for id_ in before:
            if id_ not in self._listed:
                yield {"event": "unlisted", "device": id_}


def lines_of(event: Event, said: _Said) -> Iterator[Line]:
    """What is told of an event of a driver."""
    match event:
        case Registered(_, instance, ok, error):
            yield {"event": "registered", "instance": instance, "ok": ok, "error": error}
        case StreamOpened(_, _, stream, health_api):
            yield {"event": "stream-opened", "stream": stream, "health_api": health_api}
        case StreamClosed(_, _, stream, why):
            yield {"event": "stream-closed", "stream": stream, "why": why}
        case ReportSent(_, _, stream, devices, complete):
            yield {"event": "report", "stream": stream, "devices": len(devices), "complete": complete}
            for device in said.changed(devices, complete=complete):
                name = f"{device.pool}/{device.device}"
                yield {"event": "change", "device": name, "health": str(device.health), "message": device.message}
        case DevicesListed(_, _, stream, listed):
            yield {"event": "report", "stream": stream, "devices": len(listed), "complete": True}
            yield from said.relisted(listed)
        case Prepared(_, _, claim, devices):
            yield {"event": "prepared", "claim": claim, "devices": list(devices)}
        case Unprepared(_, _, claim):
            yield {"event": "unprepared", "claim": claim}
