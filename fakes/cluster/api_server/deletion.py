"""Deletion of objects: its options, grace periods, finalizers and owners."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any

from drahealth.fakes.cluster import refusals
from drahealth.fakes.cluster.api import NAMESPACES, PODS, Kind, Object, timestamp
from drahealth.fakes.cluster.pods import is_terminal
from drahealth.fakes.cluster.refusals import FieldError

# The options of delete requests: read and checked as a real API server does. Pure.
#
# Source: k8s.io/apimachinery, `pkg/apis/meta/v1`, DeleteOptions, and `validation`, ValidateDeleteOptions.

_NONE: Mapping[str, str] = MappingProxyType({})
_POLICIES = ("Foreground", "Background", "Orphan")


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How to delete an object. `grace` in seconds; `propagation` is what happens to objects that it owns."""

    grace: int | None = None
    preconditions: Mapping[str, str] = field(default_factory=lambda: _NONE)
    """The `uid` and the `resourceVersion` that the object must have."""
    propagation: str | None = None
    dry_run: bool = False
    accepted_if_waiting: bool = False
    """The answer is 202 if the object is not removed at once: `orphanDependents` is false."""


def delete_options(body: Object, query: Mapping[str, str]) -> DeleteOptions:
    """The options in the body of a request, or in its query if the body is empty. `ApiError` 400 or 422 if wrong."""
    given = _of_body(body) if body else _of_query(query)
    orphan, policy = given.get("orphanDependents"), given.get("propagationPolicy")
    dry_run = given.get("dryRun") or []
    if errors := [*_policy_errors(orphan, policy), *refusals.dry_run_errors(dry_run)]:
        raise refusals.invalid_options("DeleteOptions", errors)
    if orphan is not None:
        policy = "Orphan" if orphan else "Background"
    preconditions = {key: value for key, value in (given.get("preconditions") or {}).items() if value is not None}
    grace = given.get("gracePeriodSeconds")
    return DeleteOptions(grace, preconditions, policy, bool(dry_run), accepted_if_waiting=orphan is False)


def _policy_errors(orphan: bool | None, policy: str | None) -> list[FieldError]:
    if orphan is not None and policy is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        return [refusals.invalid_value("propagationPolicy", policy, detail)]
    if policy is not None and policy not in _POLICIES:
        return [refusals.unsupported_value("propagationPolicy", policy, (*_POLICIES, "nil"))]
    return []


_TYPES: Mapping[str, tuple[type, str]] = {
    "gracePeriodSeconds": (int, "an integer"),
    "orphanDependents": (bool, "true or false"),
    "propagationPolicy": (str, "a string"),
    "preconditions": (dict, "an object"),
    "dryRun": (list, "a list"),
}


def _of_body(body: Object) -> Object:
    if (kind := body.get("kind") or "DeleteOptions") != "DeleteOptions":
        raise refusals.unregistered_kind(kind, body.get("apiVersion") or "v1")
    for name, (type_, words) in _TYPES.items():
        value = body.get(name)
        if value is not None and (not isinstance(value, type_) or (type_ is int and isinstance(value, bool))):
            raise refusals.bad_request(f"{name} must be {words}, got {value!r:.80}")
    for name, value in (body.get("preconditions") or {}).items():
        if not isinstance(value, str | None):
            raise refusals.bad_request(f"preconditions.{name} must be a string, got {value!r:.80}")
    return body


def _of_query(query: Mapping[str, str]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if text := query.get("gracePeriodSeconds"):
        given["gracePeriodSeconds"] = _number(text)
    if text := query.get("orphanDependents"):
        given["orphanDependents"] = text.lower() not in ("false", "0")
    if text := query.get("propagationPolicy"):
        given["propagationPolicy"] = text
    if text := query.get("dryRun"):
        given["dryRun"] = [text]
    return given


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise refusals.bad_request(f'strconv.ParseInt: parsing "{text:.80}": invalid syntax') from None


# Deletion of objects: immediate, after the grace period of a pod, or with the last finalizer. Pure functions.

DEFAULT_GRACE = 30
"""Default grace period of a pod, in seconds."""

EVENT_TTL = 3600.0
"""Seconds until an event expires (kube-apiserver, --event-ttl)."""

COLLECTOR_FINALIZERS: Mapping[str, str] = MappingProxyType({"Orphan": "orphan", "Foreground": "foregroundDeletion"})
"""The finalizers of the garbage collector, by the propagation policy that adds them."""


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
    for name, word, change in (
        ("uid", "UID", "deleted and then recreated"),
        ("resourceVersion", "ResourceVersion", "modified"),
    ):
        wanted, found = options.preconditions.get(name), obj["metadata"][name]
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


# What the garbage collector does with an owner that is deleted with its finalizer, and with its dependents. Pure.
#
# Source: k8s.io/kubernetes, `pkg/controller/garbagecollector`.


def policy_of(owner: Object) -> str | None:
    """The propagation policy that the finalizers of a marked object ask for; None if the collector has no work."""
    finalizers = owner["metadata"].get("finalizers") or ()
    if "deletionTimestamp" not in owner["metadata"]:
        return None
    return next((policy for policy, name in COLLECTOR_FINALIZERS.items() if name in finalizers), None)


def blocks(obj: Object, owner: Object) -> bool:
    """Whether the owner waits until the object is removed."""
    references = obj["metadata"].get("ownerReferences") or ()
    return any(_is(reference, owner) and reference.get("blockOwnerDeletion") for reference in references)


def without_owner(obj: Object, owner: Object) -> Object:
    """The object without its references to this owner."""
    kept = [one for one in obj["metadata"].get("ownerReferences") or () if not _is(one, owner)]
    metadata = {key: value for key, value in obj["metadata"].items() if key != "ownerReferences"}
    return {**obj, "metadata": {**metadata, "ownerReferences": kept} if kept else metadata}


def without_finalizer(owner: Object) -> Object:
    """The object without the finalizers of the collector."""
    kept = [one for one in owner["metadata"].get("finalizers") or () if one not in COLLECTOR_FINALIZERS.values()]
    metadata = {key: value for key, value in owner["metadata"].items() if key != "finalizers"}
    return {**owner, "metadata": {**metadata, "finalizers": kept} if kept else metadata}


def _is(reference: Object, owner: Object) -> bool:
    return bool(reference.get("uid") == owner["metadata"]["uid"])
