"""The devices that a driver publishes, and when."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from drahealth.proto.events import SliceChanged, SlicesListed
from drahealth.suites.checking.evidence import Evidence
from drahealth.suites.checking.observed.plain import at, mapping, sequence, text
from drahealth.suites.checking.observed.registrations import driver_name

SLICES_LIMIT = 90.0
"""Seconds until the slices must be back after a restart of the kubelet. Some drivers need more than 50 s."""


class Device(NamedTuple):
    """A device of the driver under test."""

    pool: str
    name: str

    def __str__(self) -> str:
        return f"{self.pool}/{self.name}"


def named(devices: "frozenset[Device] | set[Device] | list[Device]", limit: int = 5) -> str:
    """Some devices as text: the first few by name, and the number of the others."""
    names = sorted(map(str, devices))
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more if names else "none"


def devices_of(resource_slice: Any) -> dict[Device, dict[str, Any]]:
    """The devices of a ResourceSlice, with their definitions."""
    pool = text(resource_slice, "spec", "pool", "name")
    return {
        Device(pool, text(one, "name")): one
        for one in sequence(resource_slice, "spec", "devices")
        if isinstance(one, dict)
    }


def slice_name(resource_slice: Any) -> str:
    """The name of the object."""
    return text(resource_slice, "metadata", "name")


def is_of(resource_slice: Any, driver: str) -> bool:
    """Whether the driver published it; True if the driver's name is unknown."""
    return not driver or text(resource_slice, "spec", "driver") == driver


@dataclass(frozen=True)
class Published:
    """The published devices over time."""

    states: tuple[tuple[float, int, dict[Device, dict[str, Any]]], ...]
    """Time, record and devices after each change."""

    def at(self, time: float) -> frozenset[Device] | None:
        """The devices at a time; None if they were not known yet."""
        before = [devices for at, _, devices in self.states if at <= time]
        return frozenset(before[-1]) if before else None

    @cached_property
    def ever(self) -> frozenset[Device]:
        """All devices that were published at any time."""
        return frozenset(device for _, _, devices in self.states for device in devices)

    @cached_property
    def always(self) -> frozenset[Device]:
        """The devices that were published at all times from the first list on."""
        sets = [frozenset(devices) for _, _, devices in self.states]
        return frozenset.intersection(*sets) if sets else frozenset()

    @property
    def record(self) -> tuple[int, ...]:
        """The record of the first list, if there is one."""
        return tuple(number for _, number, _ in self.states[:1])

    def allows_multiple_allocations(self, device: Device) -> bool:
        """Whether its definition says so."""
        found = (devices[device] for _, _, devices in self.states if device in devices)
        return any(at(one, "allowMultipleAllocations") is True for one in found)


def published(evidence: Evidence, *experiments: str) -> Published:
    """What the driver published; of the main process by default. A deletion by drahealth changes nothing."""
    driver = driver_name(evidence)
    slices: dict[str, dict[Device, dict[str, Any]]] = {}
    states = []
    for record in evidence.records:
        if record.experiment not in (experiments or ("slices",)):
            continue
        match record.what:
            case SlicesListed(found):
                slices = {slice_name(one): devices_of(one) for one in found if is_of(one, driver)}
            case SliceChanged(change, one, "driver") if is_of(one, driver):
                if change == "DELETED":
                    slices.pop(slice_name(one), None)
                else:
                    slices[slice_name(one)] = devices_of(one)
            case _:
                continue
        merged = {device: spec for devices in slices.values() for device, spec in devices.items()}
        states.append((record.at, record.number, merged))
    return Published(tuple(states))


def content(resource_slice: Any) -> dict[str, Any]:
    """What a ResourceSlice says of its devices: its spec without the numbers of the pool's generation."""
    spec = mapping(resource_slice, "spec")
    return {**spec, "pool": text(spec, "pool", "name")}
