"""The events for a change of health in a pod's status. Pure.

KEP-4680 asks for device health "in Pod Status and events" and specifies nothing else. Here an event is recorded when a
status shows another health of a device than the previous status, and when the first status shows Unhealthy. A new
message, a new timeout, a heartbeat, or a first Healthy or Unknown causes no event.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.cluster.api_server.pod_statuses import FIELD, STATUS_LISTS
from drahealth.proto.values import Health


@dataclass(frozen=True, slots=True)
class PodEvent:
    """An event of a pod; `type`, `reason` and `message` as in the API."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class _Shown:
    entry: str
    health: str
    message: str


_Device = tuple[str, str]
"""Resource and id of a device. The resource is set only for device plugins, whose ids are unique per resource."""


def health_events(before: Object, after: Object) -> Iterator[PodEvent]:
    """The events for the change from one pod status to another, in the order of the later one."""
    old = dict(_shown(before))
    for device, shown in dict(_shown(after)).items():
        known = old.get(device)
        if shown.health != known.health if known else shown.health == Health.UNHEALTHY:
            yield _event(device[1], shown)


def _event(device: str, shown: _Shown) -> PodEvent:
    message = f"Device {device} of {shown.entry} is {shown.health}"
    return PodEvent(
        "Normal" if shown.health == Health.HEALTHY else "Warning",
        f"Device{shown.health}",
        f"{message}: {shown.message}" if shown.message else message,
    )


def _shown(status: Object) -> Iterator[tuple[_Device, _Shown]]:
    """Every device of a status; a device that occurs several times has the same health each time."""
    lists = [container.get(FIELD) or () for name in STATUS_LISTS for container in status.get(name) or ()]
    for entries in (*lists, status.get(FIELD) or ()):
        for entry in entries:
            resource = "" if entry["name"].startswith("claim:") else entry["name"]
            for found in entry.get("resources") or ():
                shown = _Shown(entry["name"], found.get("health", ""), found.get("message", ""))
                yield (resource, found["resourceID"]), shown
