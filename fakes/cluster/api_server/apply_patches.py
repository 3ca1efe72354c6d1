"""Apply patches (server-side apply), and the record of the managers of fields. Pure."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drahealth.fakes.cluster import refusals
from drahealth.fakes.cluster.api import (
    CLAIM_TEMPLATES,
    CLAIMS,
    EVENTS,
    NAMESPACES,
    PODS,
    REPLICA_SETS,
    SLICES,
    ApiError,
    Kind,
    Object,
    is_of_kubernetes,
)
from drahealth.fakes.cluster.api_server.patches import ATOMIC, Change, Lists, merged_lists
from drahealth.fakes.cluster.api_server.strategies import ADMITTED_POD_SPEC, with_defaults

# The record of the managers that have set the fields of an object: `metadata.managedFields`. Pure functions.
#
# A set of fields has the form `FieldsV1`, or is a set of paths. A path has the names of `FieldsV1`: `f:NAME` for a
# field, `k:KEYS` or `v:VALUE` for an element of a list. Source: KEP-555; sigs.k8s.io/structured-merge-diff,
# `merge/update.go`.

Fields = dict[str, Any]
"""Fields in the form `FieldsV1`."""

Path = tuple[str, ...]
Paths = frozenset[Path]

APPLIED_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")
"""The fields of the metadata that have managers."""

_RECORDED_METADATA = (*APPLIED_METADATA, "generateName")

_NOTHING = object()
_POD_SPEC: Object = {"containers": []}
_EMPTY: Mapping[Kind, Object] = {
    CLAIMS: {"spec": {"devices": {}}, "status": {}},
    CLAIM_TEMPLATES: {"spec": {"metadata": {}, "spec": {"devices": {}}}},
    EVENTS: with_defaults(EVENTS, {}),
    NAMESPACES: {"spec": {"finalizers": ["kubernetes"]}, "status": {}},
    PODS: {"spec": {**_POD_SPEC, **ADMITTED_POD_SPEC}, "status": {}},
    REPLICA_SETS: {"spec": {"template": {"metadata": {}, "spec": _POD_SPEC}}, "status": {}},
    SLICES: {"spec": {"pool": {}}},
}
"""Parts that an object without any field has in Kubernetes, or gets by admission: they have no manager."""
_STEP = re.compile(r"([^.\[\]]+)(?!\])|\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class Writer:
    """The manager of a request that does not apply, the subresource of the request, and its time (RFC 3339)."""

    manager: str
    subresource: str
    time: str


def updated_entries(kind: Kind, old: Object | None, new: Object, lists: Lists, writer: Writer) -> list[Object] | None:
    """The managers after a write that makes `new` of `old`; None if the writer removes the record.

    The writer becomes the only manager of the fields that it changes.
    """
    given = new["metadata"].get("managedFields")
    if given in ([], [{}]):
        return None
    entries = given or (old["metadata"].get("managedFields") if old else None) or []
    if old is not None and not entries:  # an object without a record gets one from apply patches only
        return None
    start = old or _EMPTY.get(kind) or ({"spec": {}, "status": {}} if is_of_kubernetes(kind.api_version) else {})
    if kind.has_status and not writer.subresource:  # only requests to the subresource change the status
        start, new = {**start, "status": {}}, {**new, "status": {}}
    changed, removed = difference(start, new, lists)
    if not changed and not removed:
        return [*entries]
    head = {"manager": writer.manager, "operation": "Update", "apiVersion": kind.api_version, "time": writer.time}
    own = {**head, "fieldsType": "FieldsV1", **({"subresource": writer.subresource} if writer.subresource else {})}
    before: Object = next((one for one in entries if identity(one) == identity(own)), {})
    mine = (paths_of(recorded(before)) | changed) - removed
    others = [one for one in entries if one is not before]
    new_own = [{**own, "fieldsV1": fields_of(mine)}] if mine else []
    return in_order([*without_paths(others, changed | removed), *new_own])


def in_order(entries: Sequence[Object]) -> list[Object]:
    """The entries by operation, time and manager."""
    keys = ("operation", "time", "manager", "apiVersion", "subresource")
    return sorted(entries, key=lambda entry: [str(entry.get(key, "")) for key in keys])


def conflicts(entries: Sequence[Object], changed: Paths) -> list[tuple[Object, Path]]:
    """The changed fields that other managers have set, each with its entry."""
    found = [(entry, sorted(paths_of(recorded(entry)) & changed, key=_place)) for entry in entries]
    return [(entry, path) for entry, paths in found for path in paths]


def conflict_error(found: Sequence[tuple[Object, Path]]) -> ApiError:
    """409 for an apply patch that changes fields of other managers."""
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {_shown(entry)}", "field": path_text(path)}
        for entry, path in found
    ]
    if len(found) == 1:
        return refusals.apply_conflict(f"1 conflict: {causes[0]['message']}: {causes[0]['field']}", causes)
    lines = []
    for manager in sorted({_shown(entry) for entry, _ in found}):
        lines.append(f"conflicts with {manager}:")
        lines += [f"- {path_text(path)}" for entry, path in found if _shown(entry) == manager]
    return refusals.apply_conflict(f"{len(found)} conflicts: " + "\n".join(lines), causes)


def without_paths(entries: Sequence[Object], paths: Paths) -> list[Object]:
    """The entries without these fields; an entry without fields is removed."""
    found = [(entry, paths_of(recorded(entry))) for entry in entries]
    return [
        {**entry, "fieldsV1": fields_of(own - paths)} if own & paths else entry for entry, own in found if own - paths
    ]


def identity(entry: Object) -> tuple[Any, ...]:
    """What distinguishes the entries of an object."""
    return entry.get("manager"), entry.get("operation"), entry.get("subresource", "")


def recorded(entry: Object) -> Fields:
    """The fields of an entry."""
    found = entry.get("fieldsV1")
    return found if isinstance(found, dict) else {}


def paths_of(fields: Fields, at: Path = ()) -> Paths:
    """The fields as paths."""
    return frozenset(_paths(fields, at))


def fields_of(paths: Paths) -> Fields:
    """Paths in the form `FieldsV1`."""
    fields: Fields = {}
    parents = {path[:length] for path in paths for length in range(1, len(path))}
    for path in sorted(paths):
        at = fields
        for name in path:
            at = at.setdefault(name, {})
        if path in parents:
            at["."] = {}
    return fields


def difference(old: Object, new: Object, lists: Lists) -> tuple[Paths, Paths]:
    """The fields that are new or have another value, and the fields that are gone."""
    changed: set[Path] = set()
    removed: set[Path] = set()
    _compare(_compared(old), _compared(new), lists, "", (), changed, removed)
    return frozenset(changed), frozenset(removed)


def parts(value: Any, lists: Lists, path: str) -> dict[str, tuple[Any, str]] | None:
    """The parts of a value by their names in `FieldsV1`, each with its path; None if it is replaced as a whole."""
    if isinstance(value, dict) and path not in ATOMIC:
        return {f"f:{name}": (field, f"{path}.{name}" if path else name) for name, field in value.items()}
    if isinstance(value, list) and path in lists:
        return {element_name(element, lists[path].keys): (element, path) for element in value}
    return None


def element_name(element: Any, keys: tuple[str, ...]) -> str:
    """The name of an element of a merged list. `ApiError` 400 for an element without its keys."""
    if not keys:
        return f"v:{json.dumps(element)}"
    if not isinstance(element, dict) or not any(key in element for key in keys):
        raise refusals.bad_request(f"an element of a list needs the keys {', '.join(keys)}, got {element!r:.100}")
    return f"k:{json.dumps({key: element[key] for key in sorted(keys) if key in element}, separators=(',', ':'))}"


def _place(path: Path) -> list[tuple[bool, str]]:
    """The order of paths: on each level, fields come before the fields inside other fields."""
    return [(level < len(path) - 1, name) for level, name in enumerate(path)]


def path_text(path: Path) -> str:
    """A path as errors show it, such as `.spec.containers[name="main"].image`."""
    return "".join(map(_step_text, path))


def keyed_path(indexed: str, obj: Object, lists: Lists) -> str:
    """A path such as `spec.containers[0].image` of the object, as `path_text`: with the keys of merged lists.

    Without these keys, if a name that has a bracket or a point makes the path ambiguous.
    """
    value: Any = obj
    plain = text = read = ""
    for name, index in _STEP.findall(indexed):
        if name and isinstance(value, Mapping):
            value = value.get(name)
            read, plain, text = f"{read}.{name}", f"{plain}.{name}" if plain else name, f"{text}.{name}"
        elif index and isinstance(value, Sequence) and int(index) < len(value):
            value = value[int(index)]
            read += f"[{index}]"
            text += path_text((element_name(value, lists[plain].keys),)) if plain in lists else f"[{index}]"
    return text if read == f".{indexed}" else f".{indexed}"


def _step_text(name: str) -> str:
    form, _, rest = name.partition(":")
    if form == "f":
        return f".{rest}"
    if form == "v":
        return f"[={rest}]"
    return "[" + ",".join(f"{key}={json.dumps(value)}" for key, value in json.loads(rest).items()) + "]"


def _shown(entry: Object) -> str:
    text = json.dumps(entry.get("manager", ""))
    if entry.get("subresource"):
        text += f" with subresource {json.dumps(entry['subresource'])}"
    if entry.get("operation") != "Update":
        return text
    return f"{text} using {entry.get('apiVersion')}"


def _paths(fields: Fields, at: Path) -> Iterator[Path]:
    for name, below in fields.items():
        path = (*at, name)
        if name == ".":
            yield at
        elif below:
            yield from _paths(below, path)
        else:
            yield path


def _compared(obj: Object) -> Object:
    """The fields that can have managers."""
    metadata = {name: value for name, value in obj.get("metadata", {}).items() if name in _RECORDED_METADATA}
    rest = {name: value for name, value in obj.items() if name not in ("apiVersion", "kind", "metadata")}
    return {**rest, "metadata": metadata}


def _compare(old: Any, new: Any, lists: Lists, path: str, at: Path, changed: set[Path], removed: set[Path]) -> None:
    before, after = (None if value is _NOTHING else parts(value, lists, path) for value in (old, new))
    if at and (old is _NOTHING or new is _NOTHING):
        (changed if old is _NOTHING else removed).add(at)
    elif before is None or after is None:
        if old != new:
            changed.add(at)
        return
    before, after = before or {}, after or {}
    for name in {**before, **after}:
        inner = (before.get(name) or after[name])[1]
        one, other = (found.get(name, (_NOTHING, ""))[0] for found in (before, after))
        _compare(one, other, lists, inner, (*at, name), changed, removed)


# Apply patches (server-side apply), as drivers send them for the device status of claims. Pure functions.
#
# An apply patch has all fields that its manager wants. A field that it applied before and leaves out now is removed,
# unless another manager has applied it too. A patch that changes a field of another manager is a conflict; with
# `force`, the field gets this manager. The record is `metadata.managedFields`. Source: KEP-555.

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


def apply_change(kind: Kind, patch: Object, options: ApplyOptions) -> Change:
    """The change that applies the patch. `ApiError` 500, as in Kubernetes, for a field that the kind does not have."""
    from drahealth.fakes.cluster.api_server.body_decoding import unknown_fields  # only here: it loads all messages

    lists = merged_lists(kind)
    if unknown := unknown_fields(kind, patch):
        raise refusals.untyped_patch(patch, f"{keyed_path(unknown[0], patch, lists)}: field not declared in schema")
    return lambda old: apply_patch(old, patch, lists, options)


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
