"""What happens to fake drivers, for logs, metrics, live views and `drahealth ctl watch`.

A report is published in short: as its size, and as one event for each device that it reports otherwise than before,
however many it lists. What a device plugin no longer lists is published as `unlisted`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from drahealth.proto.events import (
    CommandDone,
    DeviceChanged,
    DevicesListed,
    DeviceUnlisted,
    DriverEvent,
    Event,
    Observe,
    ReportSent,
    ReportSummary,
)
from drahealth.proto.quoting import one_line
from drahealth.proto.values import DeviceHealth, Health, PluginDevice, Report

Publish = Callable[[DriverEvent], None]


class News:
    """Passes events on to subscribers. Reports are not summarized while there are none."""

    def __init__(self) -> None:
        self._subscribers: list[Publish] = []

    def add(self, subscriber: Publish) -> Callable[[], None]:
        """It gets all events from now on. Returns a function that stops this."""
        self._subscribers.append(subscriber)

        def end() -> None:
            with suppress(ValueError):
                self._subscribers.remove(subscriber)

        return end

    def publish(self, event: DriverEvent) -> None:
        """Passes the event on."""
        for subscriber in tuple(self._subscribers):
            subscriber(event)

    def observer(self) -> Observe:
        """Takes the events of one driver, and publishes them in short."""
        reported = _Reported()

        def observe(event: Event) -> None:
            if self._subscribers:
                for short in in_short(event, reported):
                    self.publish(short)

        return observe


def command_done(driver: str, name: str, args: Mapping[str, Any]) -> CommandDone:
    """The event of a command; of a long argument it has only the size."""
    return CommandDone(driver, name, {key: _short(value) for key, value in args.items()})


_FEW = 4
"""Words of a list that are shown one by one."""


def _short(value: Any) -> Any:
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, list) and len(value) <= _FEW and all(isinstance(one, str) for one in value):
        return [one_line(one) for one in value]
    return f"{len(value)} of them" if isinstance(value, list | dict) else value


class _Reported:
    """How each device was last reported; one that never was counts as healthy."""

    def __init__(self) -> None:
        self._devices: dict[tuple[str, str], DeviceHealth] = {}
        self._last: Report = ()
        """The last complete report, if nothing else was reported since."""
        self._listed: dict[str, str] = {}

    def changed(self, report: Report, *, complete: bool) -> Iterator[DeviceHealth]:
        """The devices that are reported otherwise than before."""
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

    def relisted(self, driver: str, devices: Iterable[PluginDevice]) -> Iterator[DeviceChanged | DeviceUnlisted]:
        """How a device plugin's list differs from the one before; devices of the first one count as Healthy before."""
        before, self._listed = self._listed, {device.id: device.health for device in devices}
        unknown = None if before else str(Health.HEALTHY)
        for id_, health in self._listed.items():
            if health != before.get(id_, unknown):
                yield DeviceChanged(driver, id_, health)
        for id_ in before:
            if id_ not in self._listed:
                yield DeviceUnlisted(driver, id_)


def in_short(event: Event, reported: _Reported) -> Iterator[DriverEvent]:
    """The events to publish for an event of a driver."""
    match event:
        case ReportSent(driver, _, stream, devices, complete):
            changed = [
                DeviceChanged(driver, f"{device.pool}/{device.device}", str(device.health), device.message)
                for device in reported.changed(devices, complete=complete)
            ]
            yield ReportSummary(driver, len(devices), len(changed), stream, complete)
            yield from changed
        case DevicesListed(driver, _, stream, listed):
            differences = list(reported.relisted(driver, listed))
            changes = sum(isinstance(one, DeviceChanged) for one in differences)
            yield ReportSummary(driver, len(listed), changes, stream, complete=True)
            yield from differences
        case _ if isinstance(event, DriverEvent):
            yield event
