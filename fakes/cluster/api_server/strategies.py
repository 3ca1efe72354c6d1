"""Changes that an API server makes to an object before it stores it. Pure functions from the old and the new object.

As in Kubernetes each kind has a strategy: the fields that a create sets, the fields that an update cannot change, and
whether the kind has a status.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from drahealth.fakes.cluster.api import (
    CLAIMS,
    DEVICE_CLASSES,
    KINDS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    SLICES,
    Kind,
    Object,
)
from drahealth.fakes.cluster.api_server import refusals
from drahealth.fakes.cluster.api_server.bindings import new_gate_errors, with_gated_condition
from drahealth.fakes.cluster.api_server.claim_validation import status_errors
from drahealth.fakes.cluster.api_server.data_validation import frozen_errors
from drahealth.fakes.cluster.api_server.defaults import qos_class, with_defaults
from drahealth.fakes.cluster.api_server.metadata_validation import metadata_errors, new_finalizer_errors
from drahealth.fakes.cluster.api_server.refusals import FieldError
from drahealth.fakes.cluster.api_server.slice_validation import moved_errors
from drahealth.fakes.cluster.api_server.spec_validation import check_spec, spec_errors
from drahealth.fakes.cluster.other_kinds import BUDGETS, CRDS, is_of_kubernetes

WITH_GENERATION = frozenset({PODS, DEVICE_CLASSES, SLICES, REPLICA_SETS})
"""Kinds of `api.KINDS` with `metadata.generation`, which counts changes of the spec. All other kinds have it, too."""

_FIRST_STATUS: dict[Kind, Object] = {
    PODS: {"phase": "Pending"},
    CLAIMS: {},
    NAMESPACES: {"phase": "Active"},
    REPLICA_SETS: {},
    BUDGETS: dict.fromkeys(("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"), 0),
}
_SERVER_FIELDS = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
_NOT_OF_CLIENTS = (*_SERVER_FIELDS, "resourceVersion", "selfLink")
_LONGEST_PREFIX = 58
"""A longer `generateName` is cut off."""
_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_MUTABLE_IN_PODS = ("activeDeadlineSeconds", "schedulingGates", "tolerations", "terminationGracePeriodSeconds")


_CREATED_BY_UPDATE = frozenset(
    {
        *("ClusterRole", "ClusterRoleBinding", "Endpoints", "Event", "Lease", "LimitRange", "Role", "RoleBinding"),
        *("RuntimeClass", "Service"),
    }
)
"""Source: `AllowCreateOnUpdate` of the strategies in k8s.io/kubernetes, `pkg/registry`."""

_UPDATED_BY_REVISION = frozenset(
    {
        *("CSIDriver", "CSINode", "CSIStorageCapacity", "Lease", "MutatingWebhookConfiguration"),
        *("PodDisruptionBudget", "RuntimeClass", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
        *("ValidatingWebhookConfiguration", "VolumeAttachment"),
    }
)
"""Source: `AllowUnconditionalUpdate` of the strategies in k8s.io/kubernetes, `pkg/registry`."""


@dataclass(frozen=True, slots=True)
class ServerFields:
    """Fields that the server sets in a new object: its UID and the time, as RFC 3339."""

    uid: str
    time: str


def is_created_by_update(kind: Kind) -> bool:
    """Whether an update of an object that does not exist creates it."""
    return kind.kind in _CREATED_BY_UPDATE


def needs_revision(kind: Kind) -> bool:
    """Whether an update needs a resourceVersion."""
    return kind.kind in _UPDATED_BY_REVISION or not is_of_kubernetes(kind.api_version) or kind == CRDS


def created(kind: Kind, obj: Object, server_fields: ServerFields) -> Object:
    """The object as first stored. `ApiError` 400 or 422 for an incomplete object."""
    check_shape(kind, obj)
    if obj["metadata"].get("resourceVersion"):
        raise refusals.versioned_at_creation()
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _NOT_OF_CLIENTS}
    check_spec(kind, obj)
    if errors := spec_errors(kind, with_defaults(kind, obj)):
        raise refusals.invalid(kind, str(metadata.get("name") or ""), errors)
    metadata |= {"name": _name(kind, metadata), "uid": server_fields.uid, "creationTimestamp": server_fields.time}
    metadata = _checked_metadata(kind, metadata, [])
    if kind in WITH_GENERATION or (kind not in KINDS and "spec" in obj):
        metadata["generation"] = 1
    new = {**obj, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
    if kind == NAMESPACES:
        new = _with_namespace_fields(new)
    if kind in _FIRST_STATUS:
        new["status"] = _FIRST_STATUS[kind]
    elif kind.has_status and kind != NODES:
        new.pop("status", None)
    new = with_defaults(kind, new)
    if kind != PODS:
        return new
    new = {**new, "status": {**new["status"], "qosClass": qos_class(new["spec"])}}
    return with_gated_condition(new, server_fields.time)


def updated(kind: Kind, obj: Object, old: Object) -> Object:
    """`old` with the spec and metadata of `obj`; server fields stay, and the generation counts changes of the spec."""
    check_spec(kind, obj)
    metadata = {**obj["metadata"], **{key: old["metadata"][key] for key in _SERVER_FIELDS if key in old["metadata"]}}
    metadata = _checked_metadata(kind, metadata, new_finalizer_errors(metadata, old["metadata"]))
    new = {**obj, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
    if kind.has_status:
        new = {key: value for key, value in new.items() if key != "status"}
        new |= {"status": old["status"]} if "status" in old else {}
    new = with_defaults(kind, new)
    if errors := [*spec_errors(kind, new), *_immutable_errors(kind, new, old)]:
        raise refusals.invalid(kind, metadata["name"], errors)
    if "generation" in metadata and new.get("spec") != old.get("spec"):
        metadata["generation"] += 1
    return new


def status_updated(kind: Kind, obj: Object, old: Object) -> Object:
    """`old` with the status of `obj`, and its record of apply patches. Some kinds also take labels and annotations."""
    metadata = old["metadata"]
    if kind == CLAIMS and (errors := list(status_errors(obj.get("status") or {}, old.get("status") or {}))):
        raise refusals.invalid(kind, metadata["name"], errors)
    if kind in _METADATA_WITH_STATUS:
        kept = {key: metadata[key] for key in (*_SERVER_FIELDS, "ownerReferences") if key in metadata}
        taken = {key: value for key, value in obj["metadata"].items() if key != "ownerReferences"}
        metadata = _checked_metadata(kind, {**taken, **kept}, [])
    elif "managedFields" in obj["metadata"]:
        metadata = {**metadata, "managedFields": obj["metadata"]["managedFields"]}
    qos = {key: old["status"][key] for key in ("qosClass",) if key in (old.get("status") or {})}
    new = {**old, "metadata": metadata, "status": {**(obj.get("status") or {}), **qos}}
    return with_defaults(kind, new) if kind in (NODES, REPLICA_SETS) else new


_METADATA_WITH_STATUS = frozenset({PODS, NODES, NAMESPACES, REPLICA_SETS})
"""The kinds whose labels and annotations an update of the status replaces, too."""


def check_shape(kind: Kind, obj: Object) -> None:
    """`ApiError` 400 BadRequest for a malformed object."""
    if not isinstance(obj, dict) or not isinstance(obj.get("metadata"), dict):
        raise refusals.bad_request(f"a {kind.kind} must be an object with metadata, got {obj!r:.80}")
    given = (obj.get("kind") or kind.kind, obj.get("apiVersion") or kind.api_version)
    if given != (kind.kind, kind.api_version):
        raise refusals.other_kind(kind, *map(str, given))
    for key in ("labels", "annotations"):
        if not _is_text_map(obj["metadata"].get(key)):
            raise refusals.bad_request(f"metadata.{key} of a {kind.kind} must be an object of strings")
    for key in ("spec", "status"):
        if not isinstance(obj.get(key, {}), dict):
            raise refusals.bad_request(f"{key} of a {kind.kind} must be an object, got {type(obj[key]).__name__}")


def check_custom(kind: Kind, obj: Object) -> None:
    """`ApiError` 400 or 422 for an object of a custom kind without its kind, or with another one."""
    if not obj.get("kind"):
        text = json.dumps(obj)
        raise refusals.bad_request(
            f"the object provided is unrecognized (must be of type {kind.kind}): "
            f"Object 'Kind' is missing in '{text:.200}' ({text:.200})"
        )
    name, given = str((obj.get("metadata") or {}).get("name", "")), replace(kind, kind=str(obj["kind"]))
    errors = [
        refusals.invalid_value(key, obj[key], f"must be {wanted}")
        for key, wanted in (("apiVersion", kind.api_version), ("kind", kind.kind))
        if obj.get(key, wanted) != wanted
    ]
    if errors:
        raise refusals.invalid(given, name, errors)


def namespace_of(kind: Kind, obj: Object) -> str | None:
    """The object's namespace, None for kinds without one; `ApiError` 400 if it is missing."""
    return checked_namespace(kind, obj["metadata"].get("namespace"))


def checked_namespace(kind: Kind, namespace: str | None) -> str | None:
    """The namespace of one object of this kind, None for kinds without one; `ApiError` 400 if it is missing."""
    if not kind.namespaced:
        return None
    if not namespace:
        raise refusals.bad_request(
            f"an empty namespace may not be set for one object: name the {kind.kind}'s namespace"
        )
    return namespace


def _is_text_map(value: Any) -> bool:
    return value is None or (isinstance(value, dict) and all(isinstance(text, str) for text in value.values()))


def _name(kind: Kind, metadata: Object) -> str:
    name = metadata.get("name")
    if not name:
        prefix = metadata.get("generateName")
        if not prefix:
            error = refusals.required_value("metadata.name", "name or generateName is required")
            raise refusals.invalid(kind, "", [error])
        name = f"{prefix[:_LONGEST_PREFIX]}{''.join(random.choices(_SUFFIX_LETTERS, k=5))}"
    if not isinstance(name, str):
        raise refusals.bad_request(f"metadata.name of a {kind.kind} must be a string, got {name!r:.80}")
    return name


def _with_namespace_fields(namespace: Object) -> Object:
    """A namespace has its name as a label, and a finalizer of Kubernetes in its spec."""
    metadata = namespace["metadata"]
    labels = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata["name"]}
    spec = {"finalizers": ["kubernetes"], **(namespace.get("spec") or {})}
    return {**namespace, "metadata": {**metadata, "labels": labels}, "spec": spec}


def _checked_metadata(kind: Kind, metadata: Object, errors: list[FieldError]) -> Object:
    """The metadata without empty fields. Raises `ApiError` 422 for these errors, and for wrong fields."""
    if found := [*metadata_errors(kind, metadata), *errors]:
        raise refusals.invalid(kind, metadata["name"], found)
    return {key: value for key, value in metadata.items() if value not in ("", [], {}, None)}


def _immutable_errors(kind: Kind, new: Object, old: Object) -> Iterator[FieldError]:
    if kind == PODS:
        yield from _pod_errors(new["spec"], old["spec"])
    yield from frozen_errors(kind, new, old)
    if kind == SLICES:
        yield from moved_errors(new.get("spec") or {}, old.get("spec") or {})
    if kind == CLAIMS and new.get("spec") != old.get("spec"):
        yield refusals.invalid_value("spec", new.get("spec"), "field is immutable")


def _pod_errors(new: Object, old: Object) -> list[FieldError]:
    for key in ("containers", "initContainers"):
        if len(new.get(key) or ()) != len(old.get(key) or ()):
            return [refusals.forbidden(f"spec.{key}", "pod updates may not add or remove containers")]
    deadline, before = new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")
    at = "spec.activeDeadlineSeconds"
    if before is not None and deadline is None:
        return [refusals.invalid_value(at, deadline, "must not update from a positive integer to nil value")]
    if before is not None and deadline > before:
        return [refusals.invalid_value(at, deadline, "must be less than or equal to previous value")]
    if errors := new_gate_errors(new, old):
        return errors
    if _lasting(new) == _lasting(old):
        return []
    fields = (
        "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
        "`spec.tolerations` (only additions to existing tolerations),"
        "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
    )
    return [refusals.forbidden("spec", f"pod updates may not change fields other than {fields}")]


def _lasting(spec: Object) -> dict[str, Any]:
    kept = {key: value for key, value in spec.items() if key not in _MUTABLE_IN_PODS}
    for key in ("containers", "initContainers"):
        kept[key] = [{k: v for k, v in container.items() if k != "image"} for container in spec.get(key) or ()]
    return kept
