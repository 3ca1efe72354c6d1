"""Parses JSON from clients: strict, and with a limit of its depth, because later code is recursive."""

import json
from collections.abc import Iterator
from typing import Any

DEPTH_LIMIT = 100
"""Maximum depth of objects and lists. Kubernetes' own objects have less than 20."""


def parse_json(data: bytes) -> Any:
    """The value in UTF-8 text. Raises ValueError if it is not JSON or too deep."""
    try:
        value = json.loads(data, parse_constant=_reject_constant)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if not _is_flat(value, DEPTH_LIMIT):
        raise ValueError(_TOO_DEEP)
    return value


def duplicate_fields(data: bytes) -> list[str]:
    """The paths of fields that occur twice in an object of this JSON text, which `parse_json` accepts."""
    return list(_duplicates("", json.loads(data, object_pairs_hook=_Pairs)))


class _Pairs(list[tuple[str, Any]]):
    """The fields of an object in JSON, with those that occur twice."""


def _duplicates(path: str, value: Any) -> Iterator[str]:
    if isinstance(value, _Pairs):
        seen = set[str]()
        for key, item in value:
            at = f"{path}.{key}" if path else key
            if key in seen:
                yield at
            seen.add(key)
            yield from _duplicates(at, item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _duplicates(f"{path}[{index}]", item)


_TOO_DEEP = f"nested too deep: the limit is {DEPTH_LIMIT} objects and lists"


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")


def _is_flat(value: Any, limit: int) -> bool:
    """Whether the value has at most this depth."""
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list):
        return True
    return limit > 0 and all(_is_flat(item, limit - 1) for item in value)
