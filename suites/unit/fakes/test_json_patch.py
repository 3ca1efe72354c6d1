"""JSON patches (RFC 6902)."""

from typing import Any

import pytest

from drahealth.fakes.cluster.api import ApiError
from drahealth.fakes.cluster.api_server.patches import json_patch

DOCUMENT = {"a": {"b": [1, 2]}, "c/d": "x"}


@pytest.mark.parametrize(
    ("operation", "result"),
    [
        ({"op": "add", "path": "/e", "value": {}}, {**DOCUMENT, "e": {}}),
        ({"op": "add", "path": "/a/b/1", "value": 9}, {**DOCUMENT, "a": {"b": [1, 9, 2]}}),
        ({"op": "add", "path": "/a/b/-", "value": 9}, {**DOCUMENT, "a": {"b": [1, 2, 9]}}),
        ({"op": "add", "path": "", "value": 9}, 9),
        ({"op": "remove", "path": "/a/b/0"}, {**DOCUMENT, "a": {"b": [2]}}),
        ({"op": "remove", "path": "/c~1d"}, {"a": {"b": [1, 2]}}),
        ({"op": "replace", "path": "/a/b", "value": None}, {**DOCUMENT, "a": {"b": None}}),
        ({"op": "replace", "path": "/e", "value": 1}, {**DOCUMENT, "e": 1}),
        ({"op": "replace", "path": "/a/b/0", "value": 9}, {**DOCUMENT, "a": {"b": [9, 2]}}),
        ({"op": "copy", "from": "/c~1d", "path": "/a/b/0"}, {**DOCUMENT, "a": {"b": ["x", 1, 2]}}),
        ({"op": "move", "from": "/c~1d", "path": "/e"}, {"a": {"b": [1, 2]}, "e": "x"}),
        ({"op": "test", "path": "/a", "value": {"b": [1, 2]}}, DOCUMENT),
    ],
)
def test_operation_changes_a_copy(operation: Any, result: Any) -> None:
    before = {"a": {"b": [1, 2]}, "c/d": "x"}
    assert json_patch(before, [operation]) == result
    assert before == DOCUMENT


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/x"},
        {"op": "replace", "path": "/a/b/7", "value": 1},
        {"op": "add", "path": "/x/y", "value": 1},
        {"op": "add", "path": "/a/b/7", "value": 1},
        {"op": "add", "path": "/a/b/01", "value": 1},
        {"op": "add", "path": "a", "value": 1},
        {"op": "add", "path": "/x"},
        {"op": "test", "path": "/a/b/0", "value": True},
        {"op": "move", "from": "/x", "path": "/y"},
        {"op": "increase", "path": "/a"},
        {},
    ],
)
def test_impossible_operation_is_rejected(operation: Any) -> None:
    with pytest.raises(ApiError) as refusal:
        json_patch(DOCUMENT, [operation])
    assert (refusal.value.status, refusal.value.reason) == (422, "Invalid")
