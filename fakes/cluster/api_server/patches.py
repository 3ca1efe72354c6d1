"""Patches of objects: their content types, and the change that each asks for. Pure functions."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from drahealth.fakes.cluster.api import Kind, Object
from drahealth.fakes.cluster.api_server import refusals
from drahealth.fakes.cluster.api_server.merged_lists import Lists, merged_lists
from drahealth.fakes.cluster.api_server.strategic_merge import strategic_merge

APPLY = "application/apply-patch+yaml"
"""The content type of apply patches (module `apply_patches`)."""
STRATEGIC = "application/strategic-merge-patch+json"
"""The content type of strategic merge patches."""
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
