"""Patches of objects: JSON, merge and strategic merge patches, and the lists that are merged by keys. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from drahealth.fakes.cluster import refusals
from drahealth.fakes.cluster.api import APPLY, CLAIMS, NAMESPACES, NODES, PODS, REPLICA_SETS, STRATEGIC, Kind, Object
from drahealth.fakes.cluster.api_server.storage import copied

# The lists that patches merge by the keys of their elements, as data; other lists are replaced as a whole.
#
# Source: k8s.io/api v0.37.2, the tags `patchMergeKey` (strategic merge patches) and `listMapKey` (apply patches) of
# the types. Paths are without indices.


@dataclass(frozen=True, slots=True)
class MergedList:
    """A list whose elements have these keys; a list of different values if there are none."""

    keys: tuple[str, ...]
    strategic: bool = True
    """Whether strategic merge patches merge it too, by its first key."""


Lists = Mapping[str, MergedList]
"""The merged lists of a kind by their paths."""

_VALUES = MergedList(())
_IN_METADATA: Lists = {"metadata.ownerReferences": MergedList(("uid",)), "metadata.finalizers": _VALUES}

_IN_CONTAINER: Lists = {
    "ports": MergedList(("containerPort", "protocol")),
    "env": MergedList(("name",)),
    "volumeMounts": MergedList(("mountPath",)),
    "volumeDevices": MergedList(("devicePath",)),
    "resources.claims": MergedList(("name",), strategic=False),
}

_IN_POD_SPEC: Lists = {
    "volumes": MergedList(("name",)),
    "imagePullSecrets": MergedList(("name",)),
    "hostAliases": MergedList(("ip",)),
    "topologySpreadConstraints": MergedList(("topologyKey", "whenUnsatisfiable")),
    "schedulingGates": MergedList(("name",)),
    "resourceClaims": MergedList(("name",)),
    **{
        path: found
        for containers in ("containers", "initContainers", "ephemeralContainers")
        for path, found in (
            (containers, MergedList(("name",))),
            *((f"{containers}.{field}", merged) for field, merged in _IN_CONTAINER.items()),
        )
    },
}

_HEALTH = "allocatedResourcesStatus"
_IN_HEALTH: Lists = {
    _HEALTH: MergedList(("name",)),
    f"{_HEALTH}.resources": MergedList(("resourceID",), strategic=False),
}
"""Health (KEP-4680). A patch replaces the lists of container statuses as a whole, so it
merges only the Pod's own field. In each of these lists the keys must be unique in an apply patch."""

_CONDITIONS: Lists = {"status.conditions": MergedList(("type",))}

_BY_KIND: Mapping[str, Lists] = {
    PODS.kind: {
        **{f"spec.{path}": found for path, found in _IN_POD_SPEC.items()},
        **_CONDITIONS,
        **{
            f"status.{part}{path}": found
            for part in ("", "containerStatuses.", "initContainerStatuses.", "ephemeralContainerStatuses.")
            for path, found in _IN_HEALTH.items()
        },
        "status.podIPs": MergedList(("ip",)),
        "status.resourceClaimStatuses": MergedList(("name",)),
    },
    NODES.kind: {**_CONDITIONS, "spec.podCIDRs": _VALUES, "status.addresses": MergedList(("type",))},
    NAMESPACES.kind: _CONDITIONS,
    REPLICA_SETS.kind: {
        **{f"spec.template.spec.{path}": found for path, found in _IN_POD_SPEC.items()},
        **_CONDITIONS,
    },
    CLAIMS.kind: {
        "status.reservedFor": MergedList(("uid",)),
        "status.devices": MergedList(("driver", "device", "pool", "shareID"), strategic=False),
        "status.devices.conditions": MergedList(("type",), strategic=False),
    },
}

ATOMIC = frozenset(
    {
        "spec.selector",
        "spec.nodeSelector",
        "status.allocation.nodeSelector",
        "status.devices.data",
        "involvedObject",
        "metadata.ownerReferences",
    }
)
"""The objects that an apply patch replaces as a whole."""


def merged_lists(kind: Kind) -> Lists:
    """The merged lists of the kind, which are the same in all versions."""
    return MappingProxyType({**_IN_METADATA, **_BY_KIND.get(kind.kind, {})})


# Strategic merge patches: as JSON merge patches, but some lists are merged by the keys of their elements.
#
# The directives are `$patch`, `$deleteFromPrimitiveList`, `$setElementOrder` and `$retainKeys`. Pure functions.
# Source: k8s.io/apimachinery, `pkg/util/strategicpatch`.

_PATCH, _RETAIN = "$patch", "$retainKeys"
_DELETE_VALUES, _ORDER = "$deleteFromPrimitiveList/", "$setElementOrder/"


def strategic_merge(target: Object, patch: Object, lists: Lists, path: str = "") -> Object:
    """The patched object. `ApiError` 400 for an unknown directive, or an element without its key."""
    directive = patch.get(_PATCH, "merge")
    if directive not in ("merge", "replace", "delete"):
        raise refusals.unknown_directive(str(directive), patch)
    fields = {name: value for name, value in patch.items() if not name.startswith("$")}
    if directive != "merge":
        return _without_nulls(fields, lists, path) if directive == "replace" else {}
    retained = patch.get(_RETAIN)
    new = {name: value for name, value in target.items() if retained is None or name in _listed(_RETAIN, retained)}
    for name, value in fields.items():
        merged = _merged(new.get(name), value, lists, f"{path}.{name}" if path else name)
        new = {key: there for key, there in new.items() if key != name} if merged is None else {**new, name: merged}
    return _arranged(new, patch, target, lists, path)


def _merged(old: Any, value: Any, lists: Lists, path: str) -> Any:
    """The value of one field; None to delete it."""
    if isinstance(value, dict):
        return strategic_merge(old if isinstance(old, dict) else {}, value, lists, path)
    found = lists.get(path)
    if isinstance(value, list) and found and found.strategic:
        there = old if isinstance(old, list) else []
        if not found.keys:
            merged = [*there, *(one for one in value if one not in there)]
            return _ordered(merged, value, there, "")
        merged = _merged_elements(there, value, found.keys[0], lists, path)
        return _ordered(merged, value, there, found.keys[0])
    return value


def _merged_elements(old: list[Any], patch: list[Any], key: str, lists: Lists, path: str) -> list[Any]:
    if any(isinstance(element, dict) and element.get(_PATCH) == "replace" and len(element) == 1 for element in patch):
        return [_without_nulls(element, lists, path) for element in patch if _PATCH not in element]
    elements = list(old)
    for change in patch:
        if not isinstance(change, dict) or key not in change:
            raise refusals.no_merge_key(change, key)
        same = [i for i, there in enumerate(elements) if isinstance(there, dict) and there.get(key) == change[key]]
        at = same[0] if same else None
        if change.get(_PATCH) == "delete":
            elements = [there for i, there in enumerate(elements) if i not in same]
        elif at is None:
            elements.append(_without_nulls(change, lists, path))
        else:
            elements[at] = strategic_merge(elements[at], change, lists, path)
    return elements


def _arranged(new: Object, patch: Object, before: Object, lists: Lists, path: str) -> Object:
    """The object after the directives that name a list beside them."""
    for directive, value in patch.items():
        for prefix in (_DELETE_VALUES, _ORDER):
            name = directive.removeprefix(prefix)
            if name == directive or not isinstance(new.get(name), list):
                continue
            if prefix == _DELETE_VALUES:
                new = {**new, name: [one for one in new[name] if one not in _listed(directive, value)]}
            else:
                found = lists.get(f"{path}.{name}" if path else name)
                order = _listed(directive, value)
                key = found.keys[0] if found and found.keys else ""
                new = {**new, name: _ordered(new[name], order, before.get(name) or [], key)}
    return new


def _ordered(elements: list[Any], order: list[Any], before: list[Any], key: str) -> list[Any]:
    """The elements in the order of the patch; others stay in front of those that they were in front of.

    Source: `normalizeElementOrder` and `mergeSortedSlice`.
    """
    wanted, old = [_value(element, key) for element in order], [_value(element, key) for element in before]
    named = sorted(
        (one for one in elements if _value(one, key) in wanted), key=lambda one: wanted.index(_value(one, key))
    )
    others = [one for one in elements if _value(one, key) not in wanted]
    result: list[Any] = []
    while named and others:
        places = [old.index(value) if (value := _value(one, key)) in old else -1 for one in (others[0], named[0])]
        is_before = -1 not in places and places[0] < places[1]
        result.append(others.pop(0) if is_before else named.pop(0))
    return [*result, *named, *others]


def _without_nulls(new: Any, lists: Lists, path: str) -> Any:
    """A new value of a patch, without directives and deleted fields."""
    return strategic_merge({}, new, lists, path) if isinstance(new, dict) else new


def _value(element: Any, key: str) -> Any:
    """What identifies the element of a list."""
    return element.get(key) if key and isinstance(element, dict) else element


def _listed(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise refusals.bad_request(f"{name} must be a list, got {type(value).__name__}")
    return value


# JSON patches (RFC 6902). Pure.

_MISSING = object()


def json_patch(target: Any, operations: Sequence[Any]) -> Any:
    """The patched copy of a JSON value. Raises `ApiError` 422 for an operation that cannot be done."""
    result = copied(target)
    for operation in operations:
        if not isinstance(operation, dict):
            raise refusals.bad_request("an operation of a JSON patch must be an object")
        result = _done(result, operation)
    return result


def _done(target: Any, operation: dict[str, Any]) -> Any:
    op, path = operation.get("op"), _tokens(operation.get("path"))
    if op in ("add", "replace", "test") and "value" not in operation:
        raise refusals.failed_patch()
    if op == "add":
        return _added(target, path, copied(operation["value"]))
    if op == "remove":
        return _removed(target, path)
    if op == "replace":
        return _replaced(target, path, copied(operation["value"]))
    if op == "test":
        if not _equal(_get(target, path), operation["value"]):
            raise refusals.failed_patch()
        return target
    if op in ("copy", "move"):
        source = _tokens(operation.get("from"))
        value = copied(_get(target, source))
        return _added(_removed(target, source) if op == "move" else target, path, value)
    raise refusals.failed_patch()


def _tokens(pointer: Any) -> list[str]:
    """The steps of a JSON pointer (RFC 6901)."""
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
        raise refusals.failed_patch()
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]


def _get(target: Any, path: Sequence[str]) -> Any:
    for token in path:
        target = target.get(token, _MISSING) if isinstance(target, dict) else _element(target, token)
        if target is _MISSING:
            raise refusals.failed_patch()
    return target


def _element(target: Any, token: str) -> Any:
    return target[_index(target, token)] if isinstance(target, list) else _MISSING


def _index(target: list[Any], token: str, *, end: int = -1) -> int:
    """The index in a list; `end` is added to the last valid one."""
    number = int(token) if token.isdecimal() and (token == "0" or not token.startswith("0")) else -1
    if not 0 <= number <= len(target) + end:
        raise refusals.failed_patch()
    return number


def _added(target: Any, path: Sequence[str], value: Any) -> Any:
    if not path:
        return value
    parent, last = _get(target, path[:-1]), path[-1]
    if isinstance(parent, dict):
        parent[last] = value
    elif isinstance(parent, list):
        parent.insert(len(parent) if last == "-" else _index(parent, last, end=0), value)
    else:
        raise refusals.failed_patch()
    return target


def _replaced(target: Any, path: Sequence[str], value: Any) -> Any:
    """The target with this value. As in Kubernetes, a missing field of an object is added."""
    parent = _get(target, path[:-1])
    if path and isinstance(parent, list):
        parent[_index(parent, path[-1])] = value
        return target
    return _added(target, path, value)


def _removed(target: Any, path: Sequence[str]) -> Any:
    _get(target, path)
    if not path:
        return None
    parent, last = _get(target, path[:-1]), path[-1]
    del parent[last if isinstance(parent, dict) else _index(parent, last)]
    return target


def _equal(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal; true is not 1."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


# Patches of objects: their content types, and the change that each asks for. Pure functions.

MERGE = "application/merge-patch+json"
"""The content type of JSON merge patches."""
JSON_PATCH = "application/json-patch+json"
"""The content type of JSON patches."""

Change = Callable[[Object], Object]
"""From a stored object, which stays as it is, to the wanted one."""


def check_patch_type(media_type: str) -> None:
    """Raises `ApiError` 415 for a content type that is not that of a patch."""
    if media_type not in (*_TYPES, APPLY, JSON_PATCH):
        raise refusals.unsupported_patch()


def patch_change(kind: Kind, media_type: str, patch: Object) -> Change:
    """The change of a merge patch or a strategic merge patch."""
    return lambda old: _TYPES[media_type](old, patch, merged_lists(kind))


def read_operations(patch: Any) -> Sequence[Any]:
    """The operations of a JSON patch. Raises `ApiError` 400 if it is none."""
    if not isinstance(patch, list):
        what = "object" if isinstance(patch, dict) else type(patch).__name__
        raise refusals.bad_request(
            f"error decoding patch: json: cannot unmarshal {what} into Go value of type []handlers.jsonPatchOp"
        )
    return patch


def merge_patch(target: Any, patch: Any) -> Any:
    """The result of a JSON merge patch (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    there = target if isinstance(target, dict) else {}
    changed = {name: merge_patch(there.get(name), value) for name, value in patch.items() if value is not None}
    return {**{name: value for name, value in there.items() if name not in patch}, **changed}


def _merge(old: Object, patch: Object, _: Lists) -> Object:
    return {**merge_patch(old, patch)}


_TYPES: Mapping[str, Callable[[Object, Object, Lists], Object]] = {
    MERGE: _merge,
    STRATEGIC: strategic_merge,
}
