"""JSON merge patches and strategic merge patches."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drahealth.fakes.cluster.api import CLAIMS, NODES, PODS, SLICES, ApiError, Object
from drahealth.fakes.cluster.api_server.patches import check_patch_type, merge_patch, merged_lists, strategic_merge

RFC_7396: list[tuple[Any, Any, Any]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]
"""The test cases of RFC 7396, appendix A: target, patch, result."""

LEAVES = st.one_of(st.booleans(), st.integers(0, 3), st.sampled_from(["", "x"]))
DOCUMENTS = st.recursive(
    LEAVES, lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("abc"), inner))
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), DOCUMENTS)
METADATA = merged_lists(SLICES)


def difference(old: Any, new: Any) -> Any:
    """A merge patch from one document without nulls to another."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return new
    changed = {name: difference(old.get(name), value) for name, value in new.items() if value != old.get(name)}
    return {**dict.fromkeys(old.keys() - new.keys()), **changed}


@pytest.mark.parametrize(("target", "patch", "result"), RFC_7396)
def test_merge_patch_follows_the_rfc(target: Any, patch: Any, result: Any) -> None:
    assert merge_patch(target, patch) == result


@given(old=OBJECTS, new=OBJECTS)
def test_the_difference_of_two_objects_patches_one_to_the_other(old: Object, new: Object) -> None:
    patch = difference(old, new)
    assert merge_patch(old, patch) == new
    assert merge_patch(new, patch) == new


@given(old=OBJECTS, new=OBJECTS)
def test_without_merged_lists_a_strategic_patch_is_a_merge_patch(old: Object, new: Object) -> None:
    patch = difference(old, new)
    assert strategic_merge(old, patch, {}) == merge_patch(old, patch)


CONDITIONS = [{"type": "Ready", "status": "True", "reason": "up"}, {"type": "Taken", "status": "False"}]


@pytest.mark.parametrize(
    ("patch", "result"),
    [
        ([{"type": "Taken", "status": "True"}], [CONDITIONS[0], {"type": "Taken", "status": "True"}]),
        ([{"type": "Ready", "reason": None}], [{"type": "Ready", "status": "True"}, CONDITIONS[1]]),
        ([{"type": "New", "reason": None}], [{"type": "New"}, *CONDITIONS]),
        ([{"type": "Ready", "$patch": "delete"}], [CONDITIONS[1]]),
        ([{"type": "Other", "$patch": "delete"}], CONDITIONS),
        ([{"$patch": "replace"}, {"type": "New"}], [{"type": "New"}]),
        ([], CONDITIONS),
        (None, None),
    ],
)
def test_strategic_patch_merges_conditions_by_type(patch: Any, result: Any) -> None:
    target: Object = {"status": {"conditions": CONDITIONS, "phase": "Running"}}
    new = strategic_merge(target, {"status": {"conditions": patch}}, merged_lists(PODS))
    assert (new["status"].get("conditions"), new["status"]["phase"]) == (result, "Running")


@pytest.mark.parametrize(
    ("patch", "result"),
    [
        ({"finalizers": ["b", "c"]}, ["a", "b", "c"]),
        ({"$deleteFromPrimitiveList/finalizers": ["a", "z"]}, ["b"]),
        ({"finalizers": ["c"], "$setElementOrder/finalizers": ["c", "b"]}, ["c", "a", "b"]),
        ({"$patch": "replace", "finalizers": ["c"]}, ["c"]),
        ({"$patch": "delete"}, None),
        ({"$retainKeys": ["name"]}, None),
    ],
)
def test_strategic_patch_merges_finalizers_as_a_set(patch: Object, result: Any) -> None:
    target: Object = {"metadata": {"name": "x", "finalizers": ["a", "b"]}}
    assert strategic_merge(target, {"metadata": patch}, METADATA)["metadata"].get("finalizers") == result


def test_strategic_patch_merges_containers_and_their_env() -> None:
    target: Object = {"spec": {"containers": [{"name": "a", "env": [{"name": "x", "value": "1"}]}, {"name": "b"}]}}
    change = {"name": "a", "image": "new", "env": [{"name": "y", "value": "2"}], "args": ["1"]}
    order = {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [change]}
    env = [{"name": "y", "value": "2"}, {"name": "x", "value": "1"}]
    new = strategic_merge(target, {"spec": order}, merged_lists(PODS))
    assert new["spec"] == {"containers": [{"name": "b"}, {**change, "env": env}]}


def test_other_lists_are_replaced() -> None:
    """Also those that only apply patches merge (k8s.io/api has no patchMergeKey for them)."""
    claim: Object = {
        "status": {"devices": [{"driver": "a", "device": "b", "pool": "c"}], "reservedFor": [{"uid": "1"}]}
    }
    patch: Object = {"status": {"devices": [], "reservedFor": [{"uid": "2"}]}}
    status = strategic_merge(claim, patch, merged_lists(CLAIMS))["status"]
    assert status == {"devices": [], "reservedFor": [{"uid": "2"}, {"uid": "1"}]}
    old, new = ({"spec": {"taints": [{"key": key}]}} for key in "ab")
    assert strategic_merge(old, new, merged_lists(NODES)) == new


@pytest.mark.parametrize(
    ("patch", "status"),
    [
        ({"metadata": {"ownerReferences": [{"name": "x"}]}}, 500),
        ({"metadata": {"ownerReferences": ["x"]}}, 500),
        ({"metadata": {"$patch": "move"}}, 500),
        ({"metadata": {"$retainKeys": "name"}}, 400),
        ({"metadata": {"finalizers": ["a"], "$setElementOrder/finalizers": "a"}}, 400),
    ],
)
def test_invalid_strategic_patch_is_rejected_as_in_kubernetes(patch: Object, status: int) -> None:
    with pytest.raises(ApiError) as refusal:
        strategic_merge({"metadata": {"name": "x"}}, patch, METADATA)
    assert refusal.value.status == status


@pytest.mark.parametrize("media_type", ["", "application/json", "application/octet-stream"])
def test_unsupported_patch_type_is_rejected(media_type: str) -> None:
    with pytest.raises(ApiError) as refusal:
        check_patch_type(media_type)
    assert (refusal.value.status, refusal.value.reason) == (415, "UnsupportedMediaType")
