"""Apply patches (server-side apply), as drivers send them for the device status of claims. Pure functions.

An apply patch has all fields that its manager wants. A field that it applied before and leaves out now is removed,
unless another manager has applied it too. `metadata.managedFields` records the applied fields. There are no conflicts:
the latest value counts, as with `force`. Changes by other requests are not recorded. Source: KEP-555.
"""

import json
from dataclasses import dataclass
from typing import Any

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.cluster.api_server import refusals
from drahealth.fakes.cluster.api_server.merged_lists import ATOMIC, Lists

Fields = dict[str, Any]
"""Applied fields in the form `FieldsV1`: `f:NAME` for a field, `k:KEYS` or `v:VALUE` for an element of a list."""

_APPLIED_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")
_COMPARED_METADATA = ("name", "namespace", "uid", "resourceVersion")


@dataclass(frozen=True, slots=True)
class ApplyOptions:
    """The manager that applies, whether to the status subresource, and when (RFC 3339)."""

    manager: str
    status: bool
    time: str


def apply_patch(old: Object, patch: Object, lists: Lists, options: ApplyOptions) -> Object:
    """The object with the fields of the patch. `ApiError` 400, 422 or 500 for an invalid patch."""
    metadata = _checked_metadata(patch, options)
    wanted = _without_nulls(_applied_part(patch, metadata, options))
    _check_unique(wanted, lists)
    fields = _fields(wanted, lists)
    managed = [entry for entry in old["metadata"].get("managedFields") or () if isinstance(entry, dict)]
    own = next((entry for entry in managed if _identity(entry) == _identity(_entry(options))), {})
    others = [entry for entry in managed if entry is not own]
    kept = fields
    for other in others:
        kept = _union(kept, _recorded(other))
    new = _merged(_pruned(old, _recorded(own), kept, lists), wanted, lists)
    time = own.get("time", options.time) if _recorded(own) == fields else options.time
    entry = {**_entry(options), "apiVersion": old["apiVersion"], "time": time}
    entries = [*others, {**entry, "fieldsType": "FieldsV1", "fieldsV1": fields}]
    compared = {name: metadata[name] for name in _COMPARED_METADATA if name in metadata}
    given = {name: patch[name] for name in ("apiVersion", "kind") if name in patch}
    return {**new, **given, "metadata": {**new["metadata"], **compared, "managedFields": entries}}


def _checked_metadata(patch: Object, options: ApplyOptions) -> Object:
    metadata = patch.get("metadata", {})
    if not options.manager:
        raise refusals.no_field_manager()
    if not isinstance(metadata, dict) or metadata.get("managedFields"):
        raise refusals.bad_request("metadata of an apply patch must be an object without managedFields")
    return metadata


def _applied_part(patch: Object, metadata: Object, options: ApplyOptions) -> Object:
    """The fields of the patch that the request may change."""
    if options.status:
        return {"status": patch.get("status")}
    fields = {name: value for name, value in patch.items() if name not in ("apiVersion", "kind", "metadata", "status")}
    applied = {name: metadata[name] for name in _APPLIED_METADATA if name in metadata}
    return {**fields, "metadata": applied} if applied else fields


def _check_unique(value: Any, lists: Lists, path: str = "") -> None:
    """Raises `ApiError` 500, as Kubernetes does, for two elements of a list with the same keys."""
    if isinstance(value, dict):
        for name, field in value.items():
            _check_unique(field, lists, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        names = [_element_name(element, lists[path].keys) for element in value] if path in lists else []
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise refusals.duplicate_entries(path, twice.removeprefix("k:"))
        for element in value:
            _check_unique(element, lists, path)


def _entry(options: ApplyOptions) -> Object:
    entry = {"manager": options.manager, "operation": "Apply"}
    return {**entry, "subresource": "status"} if options.status else entry


def _identity(entry: Object) -> tuple[Any, ...]:
    return entry.get("manager"), entry.get("operation"), entry.get("subresource", "")


def _recorded(entry: Object) -> Fields:
    found = entry.get("fieldsV1")
    return found if isinstance(found, dict) else {}


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(field) for name, field in value.items() if field is not None}
    return [_without_nulls(element) for element in value] if isinstance(value, list) else value


def _parts(value: Any, lists: Lists, path: str) -> dict[str, tuple[Any, str]] | None:
    """The parts of a value by their names in `FieldsV1`, each with its path; None if it is replaced as a whole."""
    if isinstance(value, dict) and path not in ATOMIC:
        return {f"f:{name}": (field, f"{path}.{name}" if path else name) for name, field in value.items()}
    if isinstance(value, list) and path in lists:
        return {_element_name(element, lists[path].keys): (element, path) for element in value}
    return None


def _element_name(element: Any, keys: tuple[str, ...]) -> str:
    if not keys:
        return f"v:{json.dumps(element)}"
    if not isinstance(element, dict) or not any(key in element for key in keys):
        raise refusals.bad_request(f"an element of a list needs the keys {', '.join(keys)}, got {element!r:.100}")
    return f"k:{json.dumps({key: element[key] for key in sorted(keys) if key in element}, separators=(',', ':'))}"


def _fields(value: Any, lists: Lists, path: str = "") -> Fields:
    """The fields of an applied value; {} for a value that is replaced as a whole."""
    parts = _parts(value, lists, path) or {}
    below = {name: _fields(part, lists, at) for name, (part, at) in parts.items()}
    return {name: {".": {}, **fields} if name.startswith("k:") else fields for name, fields in below.items()}


def _union(one: Fields, other: Fields) -> Fields:
    common = {name: _union(one[name], other[name]) for name in one.keys() & other.keys()}
    return {**one, **other, **common}


def _merged(old: Any, new: Any, lists: Lists, path: str = "") -> Any:
    """The old value with the parts of the new one."""
    parts = _parts(new, lists, path)
    if parts is None or type(old) is not type(new):
        old = {} if isinstance(new, dict) else []
    if parts is None:
        return new
    there = {name: part for name, (part, _) in (_parts(old, lists, path) or {}).items()}
    merged = {**there, **{name: _merged(there.get(name), part, lists, at) for name, (part, at) in parts.items()}}
    return _assembled(new, merged)


def _pruned(value: Any, own: Fields, kept: Fields, lists: Lists, path: str = "") -> Any:
    """The value without the fields that are in `own`, but not in `kept`."""
    parts = _parts(value, lists, path)
    if parts is None:
        return value
    left = {}
    for name, (part, at) in parts.items():
        if name in own and name not in kept and not (own[name] and name.startswith("f:")):
            continue
        pruned = _pruned(part, own[name], kept.get(name, {}), lists, at) if name in own else part
        if pruned or pruned == part:  # what has become empty is removed
            left[name] = pruned
    return _assembled(value, left)


def _assembled(like: Any, parts: dict[str, Any]) -> Any:
    """An object or a list of these parts."""
    return {name[2:]: part for name, part in parts.items()} if isinstance(like, dict) else [*parts.values()]
