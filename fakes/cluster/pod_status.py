"""Conversion of a Pod object to the status event of a history. Pure."""

from collections.abc import Iterator

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
    unknown = tuple(_unknown_keys(status))
    return StatusSeen(
        *(meta["name"], meta["uid"], phase, containers, initial, _resources(status)),
        unknown_keys=unknown,
        pending=_why_pending(pod) if phase == "Pending" else "",
    )


def _why_pending(pod: Object) -> str:
    """The scheduler's reason, or that of a waiting container; empty if there is none."""
    status = pod.get("status", {})
    for condition in () if pod.get("spec", {}).get("nodeName") else status.get("conditions") or ():
        if (condition.get("type"), condition.get("status")) == ("PodScheduled", "False"):
            return str(condition.get("message") or condition.get("reason") or "")
    containers = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    waiting = (container.get("state", {}).get("waiting") or {} for container in containers)
    return next((str(one["message"]) for one in waiting if one.get("message")), "")


def _container_seen(status: Object) -> ContainerSeen:
    state = status.get("state", {})
    kind = next(iter(state), "waiting")
    word = state[kind].get("reason", kind) if kind == "waiting" and state else kind
    return ContainerSeen(status["name"], word, status.get("restartCount", 0), _resources(status))


def _resources(status: Object) -> tuple[ResourceStatus, ...] | None:
    entries = status.get("allocatedResourcesStatus")
    return None if entries is None else tuple(_resource_status(entry) for entry in entries)


def _unknown_keys(status: Object) -> Iterator[str]:
    """The paths of keys that entries and their elements must not have."""
    lists = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
    for owner in (status, *(container for kind in lists for container in status.get(kind) or ())):
        for entry in owner.get("allocatedResourcesStatus") or ():
            yield from (f"{entry['name']}.{key}" for key in entry.keys() - {"name", "resources"})
            for resource in entry.get("resources", ()):
                keys = sorted(resource.keys() - {"resourceID", "health", "message"})
                yield from (f"{entry['name']}.{resource['resourceID']}.{key}" for key in keys)


def _resource_status(entry: Object) -> ResourceStatus:
    found = (
        ResourceHealth(r["resourceID"], Health(r["health"]), r.get("message", "")) for r in entry.get("resources", [])
    )
    return ResourceStatus(entry["name"], tuple(found))
