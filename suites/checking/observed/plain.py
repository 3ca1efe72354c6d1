"""Read plain data whose shape is unknown: a value of another type counts as missing."""

from typing import Any


def at(data: Any, *path: str) -> Any:
    """The value at the path of keys; None if there is none."""
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def text(data: Any, *path: str) -> str:
    """The string at the path, or ""."""
    value = at(data, *path)
    return value if isinstance(value, str) else ""


def mapping(data: Any, *path: str) -> dict[str, Any]:
    """The object at the path, or an empty one."""
    value = at(data, *path)
    return value if isinstance(value, dict) else {}


def sequence(data: Any, *path: str) -> list[Any]:
    """The list at the path, or an empty one."""
    value = at(data, *path)
    return list(value) if isinstance(value, list | tuple) else []


def texts(data: Any, *path: str) -> tuple[str, ...]:
    """The strings of the list at the path."""
    return tuple(one for one in sequence(data, *path) if isinstance(one, str))
