"""Builders of histories for tests: one call per event."""

from collections.abc import Sequence

from drahealth.proto.events import ContainerSeen, Event, Record, ReportSent, StatusSeen, StreamClosed, StreamOpened
from drahealth.proto.values import DeviceHealth, Health, ResourceHealth, ResourceStatus

DRIVER = "gpu.example.com"
POOL = "node-a"
DEVICES = {f"{DRIVER}/{POOL}/{name}": ((DRIVER, POOL, name),) for name in ("gpu-0", "gpu-1")}
"""Devices by their names in a status, as `invariants` expects them."""


def history(*happened: Event | float) -> list[Record]:
    """Events at intervals of 0.01 s. A number is a pause in seconds."""
    records, now = [], 1000.0
    for what in happened:
        if isinstance(what, int | float):
            now += what
        else:
            now += 0.01
            records.append(Record(now, what))
    return records


def opened(stream: str = "s1", instance: str = "") -> StreamOpened:
    return StreamOpened(DRIVER, instance, stream, "v1.DRAResourceHealth")


def closed(stream: str = "s1", instance: str = "") -> StreamClosed:
    return StreamClosed(DRIVER, instance, stream, "ended")


def report(
    health: Health = Health.HEALTHY, message: str = "", *, timeout: int = 0, device: str = "gpu-0", stream: str = "s1"
) -> ReportSent:
    return ReportSent(DRIVER, "", stream, (DeviceHealth(POOL, device, health, message, timeout),))


def resource(health: Health = Health.HEALTHY, message: str = "", device: str = "gpu-0") -> ResourceHealth:
    return ResourceHealth(f"{DRIVER}/{POOL}/{device}", health, message)


def entry(*resources: ResourceHealth, name: str = "claim:claim-1/gpu") -> ResourceStatus:
    return ResourceStatus(name, resources)


def container(*entries: ResourceStatus, name: str = "main") -> ContainerSeen:
    return ContainerSeen(name, "running", 0, entries)


def pod(
    containers: Sequence[ContainerSeen] = (),
    name: str = "pod-1",
    phase: str = "Running",
    init: Sequence[ContainerSeen] = (),
    own: tuple[ResourceStatus, ...] | None = None,
) -> StatusSeen:
    return StatusSeen(name, f"uid-of-{name}", phase, tuple(containers), tuple(init), own)


def status(
    health: Health = Health.HEALTHY, message: str = "", device: str = "gpu-0", phase: str = "Running"
) -> StatusSeen:
    """The status of a pod with one container and one device."""
    return pod([container(entry(resource(health, message, device)))], phase=phase)
