"""Deletion of objects: immediate, after the grace period of a pod, or with the last finalizer. Pure functions."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType

from drahealth.fakes.cluster.api import NAMESPACES, PODS, Kind, Object
from drahealth.fakes.cluster.api_server import refusals
from drahealth.fakes.cluster.api_server.delete_options import DeleteOptions
from drahealth.fakes.cluster.pods import is_terminal

DEFAULT_GRACE = 30
"""Default grace period of a pod, in seconds."""

EVENT_TTL = 3600.0
"""Seconds until an event expires (kube-apiserver, --event-ttl)."""

COLLECTOR_FINALIZERS: Mapping[str, str] = MappingProxyType({"Orphan": "orphan", "Foreground": "foregroundDeletion"})
"""The finalizers of the garbage collector, by the propagation policy that adds them."""


def timestamp(wall: float) -> str:
    """Unix seconds in the form of the API: RFC 3339, whole seconds."""
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


_ANSWERED_WITH_OBJECT: Mapping[str, str] = MappingProxyType(
    {
        "": "Namespace PersistentVolume PersistentVolumeClaim Pod PodTemplate ResourceQuota Service ServiceAccount",
        "resource.k8s.io": "DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice",
        "apiextensions.k8s.io": "CustomResourceDefinition",
        "storage.k8s.io": "CSIDriver CSINode StorageClass VolumeAttachment VolumeAttributesClass",
    }
)
"""The kinds whose deletion is answered with the object, by group (`ReturnDeletedObject` in `pkg/registry`)."""


def answers_with_object(kind: Kind) -> bool:
    """Whether the answer to a deletion is the last object; otherwise it is a `Status`."""
    return kind.kind in _ANSWERED_WITH_OBJECT.get(refusals.group_of(kind), "").split()


@dataclass(frozen=True, slots=True)
class Deletion:
    """What a delete request has done: the object after it, and whether the object is gone or still has to go."""

    object: Object
    removed: bool
    pending: bool = False
    """A second request changed nothing: the first one still takes its time."""

    @property
    def waits(self) -> bool:
        """Whether this request has marked the object, which waits for its grace period or its finalizers."""
        return not self.removed and not self.pending


def marked_for_deletion(kind: Kind, obj: Object, options: DeleteOptions, now: float) -> Deletion:
    """The object after a delete request; `now` in Unix seconds. Raises `ApiError` 409 for a wrong precondition.

    A second request can only shorten the grace period. Source: k8s.io/apiserver, `pkg/registry/rest`, BeforeDelete.
    """
    _check_preconditions(kind, obj, options)
    if kind == NAMESPACES:
        return _terminating(obj, options, now)
    graceful, marked = kind == PODS, "deletionTimestamp" in obj["metadata"]
    left = obj["metadata"].get("deletionGracePeriodSeconds") or 0
    if graceful and marked and left:
        if options.grace is None or _seconds(options.grace) >= left:
            return Deletion(obj, removed=False, pending=True)
        new = _with_less_time(obj, left, _seconds(options.grace), now)
    elif graceful and not marked:
        seconds = _grace(obj, options.grace)
        new = _one_generation_later(_with_deadline(obj, now + seconds, seconds))
    else:
        graceful, new = False, obj
    new = _with_finalizers(new, _collector_finalizers(obj["metadata"].get("finalizers") or [], options))
    if not graceful and new["metadata"].get("finalizers"):
        new = _marked_now(new, now)
    return Deletion(new, removed=is_due(new) or not (graceful or new["metadata"].get("finalizers")))


def _marked_now(obj: Object, now: float) -> Object:
    """The object with a deadline that has passed; an earlier one stays."""
    mark = obj["metadata"].get("deletionTimestamp")
    if mark is None:
        return _with_deadline(_one_generation_later(obj), now, 0)
    return _with_deadline(obj, min(now, datetime.fromisoformat(mark).timestamp()), 0)


def _terminating(namespace: Object, options: DeleteOptions, now: float) -> Deletion:
    """A namespace goes when it is empty, and has no finalizers."""
    if "deletionTimestamp" in namespace["metadata"]:
        return Deletion(namespace, removed=False, pending=True)
    finalizers = _collector_finalizers(namespace["metadata"].get("finalizers") or [], options)
    metadata = {**namespace["metadata"], "deletionTimestamp": timestamp(now)}
    status = {**(namespace.get("status") or {}), "phase": "Terminating"}
    return Deletion(_with_finalizers({**namespace, "metadata": metadata, "status": status}, finalizers), removed=False)


def _check_preconditions(kind: Kind, obj: Object, options: DeleteOptions) -> None:
    """Raises `ApiError` 409 Conflict if the client wants to delete another object or another revision."""
    for field, word, change in (
        ("uid", "UID", "deleted and then recreated"),
        ("resourceVersion", "ResourceVersion", "modified"),
    ):
        wanted, found = options.preconditions.get(field), obj["metadata"][field]
        if wanted is None or wanted == found:
            continue
        if kind == NAMESPACES:
            why = f"Precondition failed: {word} in precondition: {wanted}, {word} in object meta: {found}"
            raise refusals.conflict(kind, obj["metadata"]["name"], why)
        why = f"the {word} in the precondition ({wanted}) does not match the {word} in record ({found}). "
        raise refusals.conflict_of_kind(kind, obj["metadata"]["name"], f"{why}The object might have been {change}")


def is_due(obj: Object) -> bool:
    """Whether the object can be removed now. (A namespace must also be empty.)"""
    metadata = obj["metadata"]
    is_marked = "deletionTimestamp" in metadata and not metadata.get("deletionGracePeriodSeconds")
    return is_marked and not metadata.get("finalizers")


def _collector_finalizers(finalizers: list[str], options: DeleteOptions) -> list[str]:
    """The finalizers with that of the garbage collector that the options ask for; without options, they stay."""
    if options.propagation is None:
        return finalizers
    others = [one for one in finalizers if one not in COLLECTOR_FINALIZERS.values()]
    wanted = COLLECTOR_FINALIZERS.get(options.propagation)
    return [*others, wanted] if wanted else others


def _with_finalizers(obj: Object, finalizers: list[str]) -> Object:
    if finalizers == (obj["metadata"].get("finalizers") or []):
        return obj
    metadata = {key: value for key, value in obj["metadata"].items() if key != "finalizers"}
    return {**obj, "metadata": {**metadata, "finalizers": finalizers} if finalizers else metadata}


def _one_generation_later(obj: Object) -> Object:
    if not (generation := obj["metadata"].get("generation")):
        return obj
    return {**obj, "metadata": {**obj["metadata"], "generation": generation + 1}}


def _seconds(grace: int) -> int:
    """A negative grace period means one second."""
    return grace if grace >= 0 else 1


def _grace(pod: Object, grace: int | None) -> int:
    if not pod["spec"].get("nodeName") or is_terminal(pod):
        return 0
    given = pod["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE) if grace is None else grace
    return _seconds(int(given))


def _with_less_time(obj: Object, left: int, seconds: int, now: float) -> Object:
    deadline = datetime.fromisoformat(obj["metadata"]["deletionTimestamp"]).timestamp() - left + seconds
    if deadline < now:
        return _with_deadline(obj, now, min(seconds, 1))
    return _with_deadline(obj, deadline, seconds)


def _with_deadline(obj: Object, deadline: float, seconds: int) -> Object:
    metadata = obj["metadata"]
    mark = {"deletionTimestamp": timestamp(deadline), "deletionGracePeriodSeconds": seconds}
    return {**obj, "metadata": {**metadata, **mark}}


def is_expired(event: Object, wall: float) -> bool:
    """Whether an Event is older than `EVENT_TTL`; `wall` in Unix seconds."""
    last = event.get("lastTimestamp") or event["metadata"]["creationTimestamp"]
    return bool(last < timestamp(wall - EVENT_TTL))  # as text: all times have the same form
