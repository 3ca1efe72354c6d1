"""Apply patches (server-side apply), as drivers send them for the device status of claims. Pure functions.

An apply patch has all fields that its manager wants. A field that it applied before and leaves out now is removed,
unless another manager has applied it too. A patch that changes a field of another manager is a conflict; with `force`,
the field gets this manager. Module `managed_fields` has the record. Source: KEP-555.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from drahealth.fakes.cluster.api import ApiError, Object
from drahealth.fakes.cluster.api_server import refusals
from drahealth.fakes.cluster.api_server.managed_fields import (
    APPLIED_METADATA,
    Fields,
    Path,
    Paths,
    conflict_error,
    conflicts,
    difference,
    element_name,
    identity,
    in_order,
    parts,
    path_text,
    paths_of,
    recorded,
    without_paths,
)
from drahealth.fakes.cluster.api_server.merged_lists import Lists

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_COMPARED_METADATA = ("name", "namespace", "uid", "resourceVersion")


@dataclass(frozen=True, slots=True)
class ApplyOptions:
    """The manager that applies, whether to the status subresource, and when (RFC 3339).

    `force` takes fields over from other managers.
    """

    manager: str
    status: bool
    time: str
    force: bool = True


def apply_patch(old: Object, patch: Object, lists: Lists, options: ApplyOptions) -> Object:
    """The object with the fields of the patch. `ApiError` 400, 422 or 500 for an invalid patch."""
    metadata = _checked_metadata(patch, options)
    wanted = _without_nulls(_applied_part(patch, metadata, options))
    if twice := next(_duplicates(wanted, lists), None):
        raise refusals.untyped_patch({**patch, **{name: old[name] for name in ("apiVersion", "kind")}}, twice)
    fields = _fields(wanted, lists)
    managed = [entry for entry in old["metadata"].get("managedFields") or () if isinstance(entry, dict)]
    own = next((entry for entry in managed if identity(entry) == identity(_entry(options))), {})
    others = [entry for entry in managed if entry is not own]
    kept = fields
    for other in others:
        kept = _union(kept, recorded(other))
    new = _merged(_pruned(old, recorded(own), kept, lists), wanted, lists)
    changed, removed = difference(old, new, lists)
    if not options.force:
        _check_conflicts(old, conflicts(others, changed), lists, options.manager)
    others = without_paths(others, changed)
    time = options.time if changed or removed else own.get("time")  # as in Kubernetes, None without a change
    entry = {**_entry(options), "apiVersion": old["apiVersion"], **({"time": time} if time else {})}
    entries = in_order([*others, {**entry, "fieldsType": "FieldsV1", "fieldsV1": fields}])
    compared = {name: metadata[name] for name in _COMPARED_METADATA if name in metadata}
    given = {name: patch[name] for name in ("apiVersion", "kind") if name in patch}
    return {**new, **given, "metadata": {**new["metadata"], **compared, "managedFields": entries}}


def _check_conflicts(old: Object, found: list[tuple[Object, Path]], lists: Lists, manager: str) -> None:
    """Raises `ApiError` 409 for conflicts.

    A field that `kubectl apply` has set, and that still has this value, is no conflict for the manager `kubectl`.
    Source: k8s.io/apimachinery, `pkg/util/managedfields/internal/lastappliedmanager.go`.
    """
    allowed = _last_applied(old, lists) if manager == "kubectl" else frozenset()
    if left := [(entry, path) for entry, path in found if path not in allowed]:
        raise conflict_error(left)


def _last_applied(obj: Object, lists: Lists) -> Paths:
    """The fields that `kubectl apply` without `--server-side` has set, and that have not changed since."""
    try:
        applied = json.loads((obj["metadata"].get("annotations") or {})[_LAST_APPLIED])
        metadata = {key: applied.get("metadata", {}).get(key) for key in APPLIED_METADATA}
        fields = paths_of(_fields(_without_nulls({**applied, "metadata": metadata}), lists))
    except (KeyError, ValueError, AttributeError, ApiError):
        return frozenset()
    return fields - difference(obj, applied, lists)[0]


def _checked_metadata(patch: Object, options: ApplyOptions) -> Object:
    metadata = patch.get("metadata", {})
    if not options.manager:
        raise refusals.no_field_manager()
    if not isinstance(metadata, dict) or metadata.get("managedFields"):
        raise refusals.bad_request("metadata.managedFields must be nil")
    return metadata


def _applied_part(patch: Object, metadata: Object, options: ApplyOptions) -> Object:
    """The fields of the patch that the request may change."""
    if options.status:
        return {"status": patch.get("status")}
    fields = {name: value for name, value in patch.items() if name not in ("apiVersion", "kind", "metadata", "status")}
    applied = {name: metadata[name] for name in APPLIED_METADATA if name in metadata}
    return {**fields, "metadata": applied} if applied else fields


def _duplicates(value: Any, lists: Lists, path: str = "") -> Iterator[str]:
    """The elements of lists that have the same keys as an element before them."""
    if isinstance(value, dict):
        for name, field in value.items():
            yield from _duplicates(field, lists, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        names = [element_name(element, lists[path].keys) for element in value] if path in lists else []
        for twice in dict.fromkeys(name for name in names if names.count(name) > 1):
            yield f".{path}: duplicate entries for key {path_text((twice,))}"
        for element in value:
            yield from _duplicates(element, lists, path)


def _entry(options: ApplyOptions) -> Object:
    entry = {"manager": options.manager, "operation": "Apply"}
    return {**entry, "subresource": "status"} if options.status else entry


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(field) for name, field in value.items() if field is not None}
    return [_without_nulls(element) for element in value] if isinstance(value, list) else value


def _fields(value: Any, lists: Lists, path: str = "") -> Fields:
    """The fields of an applied value; {} for a value that is replaced as a whole."""
    inside = parts(value, lists, path) or {}
    below = {name: _fields(part, lists, at) for name, (part, at) in inside.items()}
    return {name: {".": {}, **fields} if name.startswith("k:") else fields for name, fields in below.items()}


def _union(one: Fields, other: Fields) -> Fields:
    common = {name: _union(one[name], other[name]) for name in one.keys() & other.keys()}
    return {**one, **other, **common}


def _merged(old: Any, new: Any, lists: Lists, path: str = "") -> Any:
    """The old value with the parts of the new one."""
    inside = parts(new, lists, path)
    if inside is None or type(old) is not type(new):
        old = {} if isinstance(new, dict) else []
    if inside is None:
        return new
    there = {name: part for name, (part, _) in (parts(old, lists, path) or {}).items()}
    merged = {**there, **{name: _merged(there.get(name), part, lists, at) for name, (part, at) in inside.items()}}
    return _assembled(new, merged)


def _pruned(value: Any, own: Fields, kept: Fields, lists: Lists, path: str = "") -> Any:
    """The value without the fields that are in `own`, but not in `kept`."""
    inside = parts(value, lists, path)
    if inside is None:
        return value
    left = {}
    for name, (part, at) in inside.items():
        if name in own and name not in kept and not (own[name] and name.startswith("f:")):
            continue
        pruned = _pruned(part, own[name], kept.get(name, {}), lists, at) if name in own else part
        if pruned or pruned == part:  # what has become empty is removed
            left[name] = pruned
    return _assembled(value, left)


def _assembled(like: Any, parts: dict[str, Any]) -> Any:
    """An object or a list of these parts."""
    return {name[2:]: part for name, part in parts.items()} if isinstance(like, dict) else [*parts.values()]
