"""Deletion of objects: immediate, after the grace period of a pod, or with the last finalizer. Pure functions."""

from datetime import UTC, datetime

from drahealth.fakes.cluster.api import NAMESPACES, PODS, Kind, Object
from drahealth.fakes.cluster.api_server import refusals
from drahealth.fakes.cluster.pods import is_terminal

DEFAULT_GRACE = 30
"""Default grace period of a pod, in seconds."""

EVENT_TTL = 3600.0
"""Seconds until an event expires (kube-apiserver, --event-ttl)."""


def timestamp(wall: float) -> str:
    """Unix seconds in the form of the API: RFC 3339, whole seconds."""
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def marked_for_deletion(kind: Kind, obj: Object, grace: int | None, now: float) -> Object:
    """The object after a delete request; `now` in Unix seconds.

    A second request can only shorten the grace period.
    """
    if "deletionTimestamp" in obj["metadata"]:
        return _with_less_time(obj, grace)
    seconds = _grace(kind, obj, grace)
    new = _with_deadline(obj, now + seconds, seconds)
    if "generation" in obj["metadata"]:
        new["metadata"]["generation"] += 1
    return {**new, "status": {**obj["status"], "phase": "Terminating"}} if kind == NAMESPACES else new


def check_preconditions(kind: Kind, obj: Object, conditions: object) -> None:
    """Raises `ApiError` 409 Conflict if the client wants to delete another object or another revision.

    Source: k8s.io/apiserver, `pkg/storage`, Preconditions.
    """
    if not isinstance(conditions, dict):
        raise refusals.bad_request(f"preconditions must be an object, got {type(conditions).__name__}")
    for field, word in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        wanted, found = conditions.get(field), obj["metadata"][field]
        if wanted not in (None, found):
            why = f"Precondition failed: {word} in precondition: {wanted}, {word} in object meta: {found}"
            raise refusals.conflict(kind, obj["metadata"]["name"], why)


def is_due(obj: Object) -> bool:
    """Whether the object can be removed now. (A namespace must also be empty.)"""
    metadata = obj["metadata"]
    is_marked = "deletionTimestamp" in metadata and not metadata["deletionGracePeriodSeconds"]
    return is_marked and not metadata.get("finalizers")


def _grace(kind: Kind, obj: Object, grace: int | None) -> int:
    if kind != PODS or not obj["spec"].get("nodeName") or is_terminal(obj):
        return 0
    if grace is None:
        return int(obj["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE))
    return max(grace, 0)


def _with_less_time(obj: Object, grace: int | None) -> Object:
    left = obj["metadata"]["deletionGracePeriodSeconds"]
    if grace is None or grace >= left:
        return obj
    deadline = datetime.fromisoformat(obj["metadata"]["deletionTimestamp"]).timestamp()
    return _with_deadline(obj, deadline - left + max(grace, 0), max(grace, 0))


def _with_deadline(obj: Object, deadline: float, seconds: int) -> Object:
    metadata = obj["metadata"]
    mark = {"deletionTimestamp": timestamp(deadline), "deletionGracePeriodSeconds": seconds}
    return {**obj, "metadata": {**metadata, **mark}}


def is_expired(event: Object, wall: float) -> bool:
    """Whether an Event is older than `EVENT_TTL`; `wall` in Unix seconds."""
    last = event.get("lastTimestamp") or event["metadata"]["creationTimestamp"]
    return bool(last < timestamp(wall - EVENT_TTL))  # as text: all times have the same form
