"""Parses JSON from clients: strict, and with a limit of its depth, because later code is recursive."""

import json
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
