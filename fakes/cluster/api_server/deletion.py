"""How an object goes: at once, after the grace of a pod, or when its last finalizer is removed. Pure functions."""

from datetime import UTC, datetime

from drahealth.fakes.cluster.api import NAMESPACES, PODS, Kind, Object
from drahealth.fakes.cluster.pods import is_terminal

DEFAULT_GRACE = 30
"""Seconds that a pod gets unless its spec or the caller says otherwise."""

EVENTS_LAST = 3600.0
"""Seconds until an event is forgotten (kube-apiserver, --event-ttl)."""


def timestamp(wall: float) -> str:
    """Unix seconds as the API writes them, RFC 3339 in whole seconds."""
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def marked(kind: Kind, obj: Object, grace: int | None, now: float) -> Object:
    """The object after someone asked for its deletion; `now` in Unix seconds.

    What is being deleted already can only be given less time.
    """
    if "deletionTimestamp" in obj["metadata"]:
        return _hurried(obj, grace)
    seconds = _grace(kind, obj, grace)
    new = _with_deadline(obj, now + seconds, seconds)
    if "generation" in obj["metadata"]:
        new["metadata"]["generation"] += 1
    return {**new, "status": {**obj["status"], "phase": "Terminating"}} if kind == NAMESPACES else new


def is_due(obj: Object) -> bool:
    """Nothing holds the object any longer. (What holds a namespace besides is what is in it.)"""
    metadata = obj["metadata"]
    is_asked = "deletionTimestamp" in metadata and not metadata["deletionGracePeriodSeconds"]
    return is_asked and not metadata.get("finalizers")


def _grace(kind: Kind, obj: Object, grace: int | None) -> int:
    if kind != PODS or not obj["spec"].get("nodeName") or is_terminal(obj):
        return 0
    if grace is None:
        return int(obj["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE))
    return max(grace, 0)


def _hurried(obj: Object, grace: int | None) -> Object:
    left = obj["metadata"]["deletionGracePeriodSeconds"]
    if grace is None or grace >= left:
        return obj
    deadline = datetime.fromisoformat(obj["metadata"]["deletionTimestamp"]).timestamp()
    return _with_deadline(obj, deadline - left + max(grace, 0), max(grace, 0))


def _with_deadline(obj: Object, deadline: float, seconds: int) -> Object:
    metadata = obj["metadata"]
    mark = {"deletionTimestamp": timestamp(deadline), "deletionGracePeriodSeconds": seconds}
    return {**obj, "metadata": {**metadata, **mark}}


def is_forgotten(event: Object, wall: float) -> bool:
    """Whether an Event happened so long ago that an API server has it no more; `wall` in Unix seconds."""
    last = event.get("lastTimestamp") or event["metadata"]["creationTimestamp"]
    return bool(last < timestamp(wall - EVENTS_LAST))  # as text: the API writes all times alike
