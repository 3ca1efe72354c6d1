"""Requests to an API server, in scenarios: the same requests go to two servers.

Texts in paths and bodies can have references. `$NS` is the namespace of the scenario. `$uid:LABEL`, `$rv:LABEL`,
`$name:LABEL` and `$continue:LABEL` are fields of the answer to an earlier request.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

_REFERENCE = re.compile(r"\$(NS|(?:uid|rv|name|continue):[a-z0-9-]+)")


@dataclass(frozen=True, slots=True)
class Request:
    """One request. `label` is unique in its scenario; `type` is the content type, empty for none."""

    label: str
    method: str
    path: str
    body: Any = None
    """An object as JSON, a text as it is, or None."""
    type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    until: int | None = None
    """Repeat the request until the answer has this status: controllers of a real cluster take their time."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Requests in order, in a namespace of their own whose name is that of the scenario."""

    name: str
    requests: Sequence[Request]


def resolved(value: Any, find: Callable[[str], str]) -> Any:
    """The value with every reference replaced by what `find` returns for it."""
    if isinstance(value, str):
        return _REFERENCE.sub(lambda match: find(match[1]), value)
    if isinstance(value, dict):
        return {resolved(key, find): resolved(item, find) for key, item in value.items()}
    return [resolved(item, find) for item in value] if isinstance(value, list) else value
