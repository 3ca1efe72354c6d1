"""Conversion of a Pod object to the status event of a history. Pure."""

from drahealth.fakes.cluster.api import Object
from drahealth.proto.events import ContainerSeen, StatusSeen
from drahealth.proto.values import Health, ResourceHealth, ResourceStatus


def status_seen(pod: Object) -> StatusSeen:
    """The status event for a Pod object."""
    status = pod.get("status", {})
    containers, initial = (
        tuple(_container_seen(c) for c in status.get(kind) or ())
        for kind in ("containerStatuses", "initContainerStatuses")
    )
    meta, phase = pod["metadata"], status.get("phase", "Pending")
    return StatusSeen(meta["name"], meta["uid"], phase, containers, initial, _resources(status))


def _container_seen(status: Object) -> ContainerSeen:
    state = status.get("state", {})
    kind = next(iter(state), "waiting")
    word = state[kind].get("reason", kind) if kind == "waiting" and state else kind
    return ContainerSeen(status["name"], word, status.get("restartCount", 0), _resources(status))


def _resources(status: Object) -> tuple[ResourceStatus, ...] | None:
    entries = status.get("allocatedResourcesStatus")
    return None if entries is None else tuple(_resource_status(entry) for entry in entries)


def _resource_status(entry: Object) -> ResourceStatus:
    found = (
        ResourceHealth(r["resourceID"], Health(r["health"]), r.get("message", "")) for r in entry.get("resources", [])
    )
    return ResourceStatus(entry["name"], tuple(found))
