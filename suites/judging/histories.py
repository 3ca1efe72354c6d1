"""Histories as text, and histories of drivers that recorded nothing themselves."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from drahealth.manager.profile import Profile
from drahealth.manager.releases import PROFILES
from drahealth.proto.events import (
    DevicesListed,
    Event,
    GrpcCall,
    HealthRestored,
    ListReceived,
    MalformedReceived,
    PluginDeregistered,
    PluginRegistered,
    Record,
    Registered,
    ReportReceived,
    ReportSent,
    StreamClosed,
    StreamOpened,
)
from drahealth.proto.events.text import format_event
from drahealth.proto.history import HistoryFile
from drahealth.proto.values import DeviceHealth, health_of
from drahealth.suites.judging import invariants
from drahealth.suites.judging.status_content import Device, by_name

# Histories of drivers that recorded nothing themselves: what the kubelet side saw takes the place of their events.
#
# The invariants look at what drivers sent. A driver of ours records that; of any other driver there is only what the
# manager received. Pure functions from records to records.

_FOREVER = 10**9  # seconds; what a device plugin lists has no timeout

_OF_KUBELET = (
    PluginRegistered,
    PluginDeregistered,
    GrpcCall,
    ReportReceived,
    ListReceived,
    HealthRestored,
    MalformedReceived,
)


def is_of_kubelet(event: Event) -> bool:
    """Whether the kubelet side saw it, and not the driver."""
    return isinstance(event, _OF_KUBELET) or (isinstance(event, StreamOpened | StreamClosed) and bool(event.endpoint))


def one_side(records: Sequence[Record]) -> list[Record]:
    """The records without what the kubelet saw of drivers that recorded their own events."""
    own = {r.what.driver for r in records if isinstance(r.what, Registered | ReportSent | DevicesListed)}
    own |= {r.what.driver for r in records if isinstance(r.what, StreamOpened) and not r.what.endpoint}
    return [r for r in records if not (is_of_kubelet(r.what) and getattr(r.what, "driver", "") in own)]


def as_read(records: Sequence[Record], profile: Profile) -> list[Record]:
    """One side of the history, with of each report what a kubelet of this profile reads."""
    return [replace(record, what=_as_read(_as_sent(record.what), profile)) for record in one_side(records)]


def devices_in(records: Iterable[Record]) -> dict[str, tuple[Device, ...]]:
    """The reported devices by what a Pod status calls them: their ids, their CDI ids, those of a resource."""
    return by_name(device for record in records for device in _named(record.what))


def violations(history: HistoryFile) -> Mapping[str, Sequence[str]]:
    """By requirement, what is wrong in a history that the manager recorded. Raises KeyError for another profile."""
    records = as_read(history.records, PROFILES[history.header.profile])
    return invariants.violations(records, devices_in(history.records))


def _as_sent(event: Event) -> Event:
    """The event as the driver would have recorded it. Its instance is known by its endpoint."""
    match event:
        case StreamOpened() | StreamClosed():
            return replace(event, instance=event.endpoint or event.instance)
        case ReportReceived():
            return ReportSent(event.driver, event.endpoint, event.stream, event.devices)
        case HealthRestored():
            return ReportSent(event.driver, "", "", event.devices, complete=False)
        case ListReceived():
            return DevicesListed(event.driver, event.endpoint, event.stream, event.devices)
    return event


def _as_read(event: Event, profile: Profile) -> Event:
    if isinstance(event, DevicesListed):
        devices = tuple(DeviceHealth("", d.id, health_of(d.health), timeout=_FOREVER) for d in event.devices)
        return ReportSent(event.driver, event.instance, event.stream, devices)
    if not isinstance(event, ReportSent):
        return event
    return replace(event, devices=tuple(profile.as_read(device) for device in event.devices))


def _named(event: Event) -> Iterator[tuple[str, Device]]:
    """The devices of an event, by what a Pod status calls them."""
    match event:
        case ReportReceived(driver=driver) | ReportSent(driver=driver) | HealthRestored(driver=driver):
            for device in event.devices:
                yield f"{driver}/{device.pool}/{device.device}", (driver, device.pool, device.device)
        case ListReceived(driver=driver) | DevicesListed(driver=driver):
            for listed in event.devices:
                yield invariants.name_in(driver, listed.id), (driver, "", listed.id)
        case GrpcCall():
            yield from _by_cdi_id(event)


def _by_cdi_id(call: GrpcCall) -> Iterator[tuple[str, Device]]:
    """The devices of a prepared claim by their first CDI ids."""
    if call.response is None or not call.method.endswith("/NodePrepareResources"):
        return
    for claim in call.response.get("claims", {}).values():
        for device in claim.get("devices", ()):
            if ids := device.get("cdi_device_ids"):
                yield ids[0], (call.driver, device.get("pool_name", ""), device.get("device_name", ""))


# A history as readable text: one line per event. Pod statuses and events are indented.

_LINES = 60
"""Lines of the start and of the end of a long history."""


def format_history(records: Sequence[Record]) -> str:
    """The history, with times in seconds since its first event. The middle of a long history is omitted."""
    if not records:
        return "nothing happened"
    records = one_side(records)
    start = records[0].at
    lines = [f"{record.at - start:8.3f} s  {format_event(record.what)}" for record in records]
    return "\n".join(_shortened(lines))


def _shortened(lines: Sequence[str]) -> Iterator[str]:
    if len(lines) <= 2 * _LINES:
        yield from lines
        return
    yield from lines[:_LINES]
    yield f"           ... {len(lines) - 2 * _LINES} more ..."
    yield from lines[-_LINES:]
