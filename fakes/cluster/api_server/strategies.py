"""Changes that an API server makes to an object before it stores it. Pure functions from the old and the new object.

As in Kubernetes each kind has a strategy: the fields that a create sets, the fields that an update cannot change, and
whether the kind has a status.
"""

import base64
import random
import re
from dataclasses import dataclass
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
from drahealth.fakes.cluster.api_server.spec_validation import validate_spec

WITH_GENERATION = frozenset({PODS, DEVICE_CLASSES, SLICES, REPLICA_SETS})
"""Kinds of `api.KINDS` with `metadata.generation`, which counts changes of the spec. All other kinds have it, too."""

_FIRST_STATUS: dict[Kind, Object] = {PODS: {"phase": "Pending"}, CLAIMS: {}, NAMESPACES: {"phase": "Active"}}
_SERVER_FIELDS = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_NAME_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character"
)
_MUTABLE_IN_PODS = ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds")


@dataclass(frozen=True, slots=True)
class ServerFields:
    """Fields that the server sets in a new object: its UID and the time, as RFC 3339."""

    uid: str
    time: str


def created(kind: Kind, obj: Object, server_fields: ServerFields) -> Object:
    """The object as first stored. `ApiError` 400 or 422 for an incomplete object."""
    check_shape(kind, obj)
    if obj["metadata"].get("resourceVersion"):
        raise refusals.versioned_at_creation()
    metadata = {key: value for key, value in obj["metadata"].items() if key not in (*_SERVER_FIELDS, "resourceVersion")}
    validate_spec(kind, obj)
    metadata |= {"name": _name(kind, metadata), "uid": server_fields.uid, "creationTimestamp": server_fields.time}
    if kind in WITH_GENERATION or (kind not in KINDS and "spec" in obj):
        metadata["generation"] = 1
    new = {**obj, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
    if kind in _FIRST_STATUS:
        new["status"] = _FIRST_STATUS[kind]
    elif kind.has_status and kind != NODES:
        new.pop("status", None)
    return _with_defaults(kind, new)


def updated(kind: Kind, obj: Object, old: Object) -> Object:
    """`old` with the spec and metadata of `obj`; server fields stay, and the generation counts changes of the spec."""
    validate_spec(kind, obj)
    metadata = {**obj["metadata"], **{key: old["metadata"][key] for key in _SERVER_FIELDS if key in old["metadata"]}}
    new = {**obj, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
    if kind.has_status:
        new["status"] = old.get("status", {})
    new = _with_defaults(kind, new)
    _check_immutable(kind, new, old)
    if "generation" in metadata and new.get("spec") != old.get("spec"):
        metadata["generation"] += 1
    return new


def status_updated(obj: Object, old: Object) -> Object:
    """`old` with the status of `obj`, and its record of apply patches."""
    managed = {key: obj["metadata"][key] for key in ("managedFields",) if key in obj["metadata"]}
    return {**old, "metadata": {**old["metadata"], **managed}, "status": obj.get("status") or {}}


def check_shape(kind: Kind, obj: Object) -> None:
    """`ApiError` 400 BadRequest for a malformed object."""
    if not isinstance(obj, dict) or not isinstance(obj.get("metadata"), dict):
        raise refusals.bad_request(f"a {kind.kind} must be an object with metadata, got {obj!r:.80}")
    for key, wanted in (("apiVersion", kind.api_version), ("kind", kind.kind)):
        if obj.get(key, wanted) != wanted:
            raise refusals.bad_request(f"the {key} in the data ({obj[key]}) does not match the expected one ({wanted})")
    for key in ("labels", "annotations"):
        if not _is_text_map(obj["metadata"].get(key)):
            raise refusals.bad_request(f"metadata.{key} of a {kind.kind} must be an object of strings")
    for key in ("spec", "status"):
        if not isinstance(obj.get(key, {}), dict):
            raise refusals.bad_request(f"{key} of a {kind.kind} must be an object, got {type(obj[key]).__name__}")


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


def is_name(name: object, kind: Kind | None = None) -> bool:
    """Whether this is a valid name of an object: an RFC 1123 subdomain; for RBAC, a part of a path."""
    if kind and kind.api_version.startswith("rbac.") and isinstance(name, str):
        return name not in ("", ".", "..") and not set(name) & set("/%")
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def _name(kind: Kind, metadata: Object) -> str:
    name = metadata.get("name")
    if not name:
        prefix = metadata.get("generateName")
        if not prefix:
            error = refusals.required_value("metadata.name", "name or generateName is required")
            raise refusals.invalid(kind, "", [error])
        name = f"{prefix}{''.join(random.choices(_SUFFIX_LETTERS, k=5))}"
    if not is_name(name, kind):
        raise refusals.invalid(kind, str(name), [refusals.invalid_value("metadata.name", name, _NAME_RULE)])
    return str(name)


def _with_defaults(kind: Kind, obj: Object) -> Object:
    """The object with what a server adds to objects of its kind."""
    if kind == PODS:
        return _with_pod_defaults(obj)
    if (kind.kind, kind.api_version) == ("Secret", "v1") and "stringData" in obj:
        encoded = {key: base64.b64encode(text.encode()).decode() for key, text in obj["stringData"].items()}
        kept = {key: value for key, value in obj.items() if key != "stringData"}
        return {**kept, "data": {**(obj.get("data") or {}), **encoded}}
    return obj


def _with_pod_defaults(pod: Object) -> Object:
    """Sets the defaults of the pod API that others read here; a limit is the default of its request."""
    spec = pod.get("spec") or {}
    if not spec.get("containers"):
        name = pod["metadata"]["name"]
        raise refusals.invalid(PODS, name, [refusals.required_value("spec.containers")])
    lists = {key: [_with_requests(c) for c in spec[key]] for key in ("containers", "initContainers") if spec.get(key)}
    defaults = {"restartPolicy": "Always", "terminationGracePeriodSeconds": 30}
    return {**pod, "spec": {**defaults, **spec, **lists}}


def _with_requests(container: Object) -> Object:
    resources = container.get("resources") or {}
    if not resources.get("limits"):
        return container
    requests = {**resources["limits"], **(resources.get("requests") or {})}
    return {**container, "resources": {**resources, "requests": requests}}


def _check_immutable(kind: Kind, new: Object, old: Object) -> None:
    name = old["metadata"]["name"]
    if kind == PODS and _lasting(new["spec"]) != _lasting(old["spec"]):
        fields = "`spec.containers[*].image`, `spec.initContainers[*].image`, " + ", ".join(
            f"`spec.{field}`" for field in _MUTABLE_IN_PODS
        )
        error = refusals.forbidden("spec", f"pod updates may not change fields other than {fields}")
        raise refusals.invalid(kind, name, [error])
    if kind == CLAIMS and new.get("spec") != old.get("spec"):
        raise refusals.invalid(kind, name, [refusals.invalid_value("spec", new.get("spec"), "field is immutable")])


def _lasting(spec: Object) -> dict[str, Any]:
    kept = {key: value for key, value in spec.items() if key not in _MUTABLE_IN_PODS}
    for key in ("containers", "initContainers"):
        kept[key] = [{k: v for k, v in container.items() if k != "image"} for container in spec.get(key) or ()]
    return kept
