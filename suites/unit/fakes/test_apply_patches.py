"""Apply patches, as the helper for DRA drivers and other drivers send them."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drahealth.fakes.cluster.api import CLAIMS, PODS, ApiError, Kind, Object
from drahealth.fakes.cluster.api_server.apply_patches import ApplyOptions, apply_change, apply_patch, keyed_path
from drahealth.fakes.cluster.api_server.patches import merged_lists

NET = {"driver": "net.example.com", "pool": "node-a", "device": "eth1"}
GPU = {"driver": "gpu.example.com", "pool": "node-a", "device": "gpu-0"}
READY = {"type": "Ready", "status": "True"}
CLAIM: Object = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "gpu", "namespace": "default", "resourceVersion": "5"},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}},
    "status": {"reservedFor": [{"uid": "1"}], "allocation": {"nodeSelector": {"a": 1}}},
}
IDENTITY = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "gpu"}}


def apply(old: Object, patch: Object, manager: str = "driver", time: str = "t1", kind: Kind = CLAIMS) -> Object:
    """A patch of the status."""
    return apply_patch(old, {**IDENTITY, **patch}, merged_lists(kind), ApplyOptions(manager, True, time))


def devices(*found: Object) -> Object:
    return {"status": {"devices": [*found]}}


def apply_labels(old: Object, labels: Any, manager: str = "driver") -> Object:
    patch = {**IDENTITY, "metadata": {"name": "gpu", "labels": labels}}
    return apply_patch(old, patch, merged_lists(CLAIMS), ApplyOptions(manager, False, "t1"))


def test_the_devices_of_a_claim_are_merged_by_their_keys() -> None:
    one = apply(CLAIM, devices({**NET, "conditions": [READY]}), "net")
    both = apply(one, devices({**GPU, "data": {"a": 1}}), "gpu")
    assert both["status"] == {**CLAIM["status"], "devices": [{**NET, "conditions": [READY]}, {**GPU, "data": {"a": 1}}]}
    assert both["spec"] == CLAIM["spec"]


def test_a_device_that_is_applied_again_is_changed_in_place() -> None:
    one = apply(CLAIM, devices({**NET, "data": {"a": 1}, "conditions": [READY]}, GPU))
    other = {"type": "Other", "status": "True"}
    two = apply(one, devices({**NET, "data": {"b": 1}, "conditions": [other, READY]}, GPU))
    assert two["status"]["devices"] == [{**NET, "data": {"b": 1}, "conditions": [READY, other]}, GPU]


def test_fields_that_are_no_longer_applied_are_removed() -> None:
    one = apply(CLAIM, devices({**NET, "data": {"a": 1}, "conditions": [READY]}, GPU))
    two = apply(one, devices({**NET, "conditions": [READY]}))
    assert two["status"]["devices"] == [{**NET, "conditions": [READY]}]
    assert apply(two, {})["status"] == CLAIM["status"]


def test_fields_that_another_manager_applied_too_stay() -> None:
    one = apply(apply(CLAIM, devices({**NET, "data": {}}), "a"), devices(NET), "b")
    two = apply(one, {}, "a")
    assert two["status"]["devices"] == [NET]
    assert "devices" not in apply(two, {}, "b")["status"]


def test_two_shares_of_a_device_are_two_elements() -> None:
    shares = [{**GPU, "shareID": share, "data": {}} for share in "ab"]
    one = apply(CLAIM, devices(*shares))
    two = apply(one, devices({**shares[1], "data": {"x": 1}}))
    assert two["status"]["devices"] == [{**shares[1], "data": {"x": 1}}]


def test_the_applied_fields_are_recorded_as_in_kubernetes() -> None:
    leaves: Object = {f"f:{key}": {} for key in (*NET, "data")}
    fields = {"f:status": {"f:devices": {KEY: {".": {}, **leaves}}}}
    (entry,) = apply(CLAIM, devices({**NET, "data": {"a": 1}}))["metadata"]["managedFields"]
    assert entry == {
        "manager": "driver",
        "operation": "Apply",
        "subresource": "status",
        "apiVersion": "resource.k8s.io/v1",
        "time": "t1",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }


KEY = 'k:{"device":"eth1","driver":"net.example.com","pool":"node-a"}'


def test_applying_the_same_again_changes_nothing() -> None:
    one = apply(CLAIM, devices(NET, GPU))
    assert apply(one, devices(NET, GPU), time="t2") == one


def test_labels_and_finalizers_are_applied_to_the_object() -> None:
    one = apply_labels({**CLAIM, "metadata": {**CLAIM["metadata"], "labels": {"x": "y"}}}, {"a": "1", "b": "2"})
    two = apply_labels(one, {"a": "3"})
    assert two["metadata"]["labels"] == {"x": "y", "a": "3"}
    assert apply_labels(two, None)["metadata"]["labels"] == {"x": "y"}
    assert two["status"] == CLAIM["status"]


def test_the_status_subresource_and_the_object_are_applied_separately() -> None:
    both = apply(apply_labels(CLAIM, {"a": "1"}), devices(NET))
    assert (both["metadata"]["labels"], both["status"]["devices"]) == ({"a": "1"}, [NET])
    assert apply(both, {})["metadata"]["labels"] == {"a": "1"}


def test_containers_of_a_pod_are_merged_by_name() -> None:
    pod: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "a"}]},
    }
    spec = {"containers": [{"name": "b", "image": "i"}], "nodeSelector": {"x": "y"}}
    patch = {"metadata": {"name": "p"}, "spec": spec}
    new = apply_patch(pod, patch, merged_lists(PODS), ApplyOptions("m", False, "t"))
    assert new["spec"] == {"containers": [{"name": "a"}, {"name": "b", "image": "i"}], "nodeSelector": {"x": "y"}}


@pytest.mark.parametrize(
    ("patch", "manager", "status"),
    [
        ({}, "", 422),
        ({"metadata": {"managedFields": [{}]}}, "m", 400),
        ({"metadata": "x"}, "m", 400),
        (devices({"data": {}}), "m", 400),
        ({"status": {"devices": ["x"]}}, "m", 400),
    ],
)
def test_invalid_apply_patch_is_rejected(patch: Object, manager: str, status: int) -> None:
    with pytest.raises(ApiError) as refusal:
        apply(CLAIM, patch, manager)
    assert refusal.value.status == status


@pytest.mark.parametrize("recorded", [None, [], [1], [{}], [{"manager": "driver", "operation": "Apply"}]])
def test_patch_is_applied_despite_invalid_managed_fields(recorded: Any) -> None:
    old = {**CLAIM, "metadata": {**CLAIM["metadata"], "managedFields": recorded}}
    assert apply(old, devices(NET))["status"]["devices"] == [NET]


LEAVES = st.sampled_from([0, 1, "x", [], [1]])
CONDITION_LISTS = st.dictionaries(st.sampled_from(["Ready", "Other"]), st.sampled_from(["True", "False"])).map(
    lambda found: [{"type": name, "status": status} for name, status in found.items()]
)
DEVICE_LISTS = st.dictionaries(
    st.sampled_from(["gpu-0", "gpu-1", "gpu-2"]),
    st.fixed_dictionaries({}, optional={"data": st.dictionaries(st.just("a"), LEAVES), "conditions": CONDITION_LISTS}),
).map(lambda found: [{"driver": "d", "pool": "p", "device": name, **fields} for name, fields in found.items()])
STATUSES = st.fixed_dictionaries(
    {},
    optional={
        "devices": DEVICE_LISTS,
        "extra": st.dictionaries(st.sampled_from("ab"), st.dictionaries(st.sampled_from("cd"), LEAVES)),
    },
)


def without_order(value: Any) -> Any:
    """The value with lists in a fixed order, and without empty lists and objects."""
    if isinstance(value, dict):
        found = {name: without_order(field) for name, field in value.items()}
        return {name: field for name, field in found.items() if field not in ({}, [])}
    return sorted(map(without_order, value), key=str) if isinstance(value, list) else value


@given(one=STATUSES, two=STATUSES)
def test_the_last_apply_patch_of_a_manager_counts_alone(one: Object, two: Object) -> None:
    both = apply(apply(CLAIM, {"status": one}), {"status": two})
    alone = apply(CLAIM, {"status": two})
    assert without_order(both["status"]) == without_order(alone["status"])
    assert [entry["fieldsV1"] for entry in both["metadata"]["managedFields"]] == [
        entry["fieldsV1"] for entry in alone["metadata"]["managedFields"]
    ]


@given(one=STATUSES, two=STATUSES)
def test_empty_apply_patch_keeps_fields_of_other_managers(one: Object, two: Object) -> None:
    both = apply(apply(CLAIM, {"status": one}, "one"), {"status": two}, "two")
    left = apply(both, {}, "one")
    alone = apply(CLAIM, {"status": two}, "two")
    assert without_order(left["status"]) == without_order(alone["status"])


@pytest.mark.parametrize("place", [{}, {"name": "main"}], ids=["pod", "container"])
def test_two_entries_of_health_with_one_name_are_refused(place: Object) -> None:
    part = {**place, "allocatedResourcesStatus": [{"name": "claim:a"}, {"name": "claim:a"}]}
    with pytest.raises(ApiError, match=r'duplicate entries for key \[name="claim:a"\]') as refused:
        apply(CLAIM, {"status": {"containerStatuses": [part]} if place else part}, kind=PODS)
    assert refused.value.status == 500


def test_the_path_of_a_field_has_the_keys_of_merged_lists() -> None:
    pod: Object = {"spec": {"containers": [{"name": "a"}, {"name": "b", "args": [{}], "color": "red"}]}}
    paths = ("spec.containers[1].color", "spec.containers[1].args[0].x", "color")
    assert [keyed_path(path, pod, merged_lists(PODS)) for path in paths] == [
        '.spec.containers[name="b"].color',
        '.spec.containers[name="b"].args[0].x',
        ".color",
    ]


@pytest.mark.parametrize("name", ["0[0", "0[0]", "a.b", "[", "]"])
def test_unknown_field_with_a_bracket_or_a_point_is_refused(name: str) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {name: None}}
    with pytest.raises(ApiError, match=re.escape(f".spec.{name}: field not declared in schema")):
        apply_change(PODS, pod, ApplyOptions("one", False, "t"))
