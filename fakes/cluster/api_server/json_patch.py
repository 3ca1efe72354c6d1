"""JSON patches (RFC 6902). Pure."""

from collections.abc import Sequence
from typing import Any

from drahealth.fakes.cluster.api_server import refusals
from drahealth.fakes.cluster.api_server.storage import copied

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
