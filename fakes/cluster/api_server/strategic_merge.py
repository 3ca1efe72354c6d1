"""Strategic merge patches: as JSON merge patches, but some lists are merged by the keys of their elements.

The directives are `$patch`, `$deleteFromPrimitiveList`, `$setElementOrder` and `$retainKeys`. Pure functions. Source:
k8s.io/apimachinery, `pkg/util/strategicpatch`.
"""

from typing import Any

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.cluster.api_server import refusals
from drahealth.fakes.cluster.api_server.merged_lists import Lists

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
