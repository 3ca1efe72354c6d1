"""The managers of fields, as a real API server records them, and conflicts between apply patches."""

from typing import Any

import pytest

from drahealth.fakes.cluster.api import DATA_KINDS, PODS, ApiError, Object
from drahealth.fakes.cluster.api_server.apply_patches import (
    ApplyOptions,
    Writer,
    apply_patch,
    fields_of,
    in_order,
    path_text,
    paths_of,
    updated_entries,
)
from drahealth.fakes.cluster.api_server.patches import merged_lists
from drahealth.suites.unit.fakes.test_api_http import Web, web

__all__ = ["web"]  # the fixture

CONFIG_MAPS = DATA_KINDS[0]
PATH = "/api/v1/namespaces/default/configmaps"
MERGE = {"Content-Type": "application/merge-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}


def config_map(data: Object | None, **metadata: Any) -> Object:
    found = {"data": data} if data is not None else {}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", **metadata}, **found}


def write(old: Object | None, new: Object, manager: str = "one") -> Object:
    entries = updated_entries(CONFIG_MAPS, old, new, merged_lists(CONFIG_MAPS), Writer(manager, "", "t"))
    return {**new, "metadata": {**new["metadata"], "managedFields": entries}}


def fields(obj: Object) -> dict[str, Any]:
    return {entry["manager"]: entry["fieldsV1"] for entry in obj["metadata"]["managedFields"] or ()}


def test_a_writer_manages_what_it_creates() -> None:
    created = write(None, config_map({"b": "1"}, labels={"x": "one"}))
    expected = {"f:data": {".": {}, "f:b": {}}, "f:metadata": {"f:labels": {".": {}, "f:x": {}}}}
    assert fields(created) == {"one": expected}


def test_the_containers_of_a_new_pod_are_managed_by_their_names() -> None:
    container = {"name": "main", "image": "x", "env": [{"name": "A", "value": "b"}]}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [container]}, "status": {"phase": "Pending"}}
    entries = updated_entries(PODS, None, pod, merged_lists(PODS), Writer("one", "", "t")) or []
    env: Object = {".": {}, 'k:{"name":"A"}': {".": {}, "f:name": {}, "f:value": {}}}
    main = {".": {}, "f:name": {}, "f:image": {}, "f:env": env}
    assert [entry["fieldsV1"] for entry in entries] == [{"f:spec": {"f:containers": {'k:{"name":"main"}': main}}}]


def test_managers_are_ordered_by_operation_then_time_then_name() -> None:
    keys = ("operation", "time", "manager")
    expected = [("Apply", "2", "b"), ("Update", "1", "b"), ("Update", "1", "c"), ("Update", "2", "a")]
    entries = [dict(zip(keys, entry, strict=True)) for entry in reversed(expected)]
    assert [tuple(entry[key] for key in keys) for entry in in_order(entries)] == expected


def test_a_changed_field_gets_the_writer_as_its_only_manager() -> None:
    old = write(None, config_map({"a": "1", "b": "1"}))
    new = write(old, {**old, "data": {"a": "2", "b": "1"}}, "two")
    assert fields(new) == {"one": {"f:data": {".": {}, "f:b": {}}}, "two": {"f:data": {"f:a": {}}}}


def test_a_removed_field_has_no_manager() -> None:
    old = write(None, config_map({"a": "1"}))
    assert fields(write(old, config_map(None), "two")) == {}


@pytest.mark.parametrize("given", [[], [{}]])
def test_a_writer_can_remove_the_record(given: list[Object]) -> None:
    old = write(None, config_map({"a": "1"}))
    assert fields(write(old, config_map({"a": "2"}, managedFields=given))) == {}


def test_a_write_without_a_change_keeps_the_record() -> None:
    old = write(None, config_map({"a": "1"}))
    assert write(old, config_map({"a": "1"}), "two") == old


def apply(old: Object, data: Object, manager: str = "two", *, force: bool = False) -> Object:
    options = ApplyOptions(manager, False, "t", force)
    return apply_patch(old, config_map(data), merged_lists(CONFIG_MAPS), options)


def test_an_apply_patch_that_changes_a_field_of_another_manager_is_a_conflict() -> None:
    old = write(None, config_map({"a": "1", "b": "1"}))
    with pytest.raises(ApiError) as error:
        apply(old, {"a": "2"})
    assert (error.value.status, error.value.details) == (
        409,
        {"causes": [{"reason": "FieldManagerConflict", "message": 'conflict with "one" using v1', "field": ".data.a"}]},
    )


def test_force_takes_the_field_over_and_equal_values_are_shared() -> None:
    old = write(None, config_map({"a": "1", "b": "1"}))
    forced = apply(old, {"a": "2", "b": "1"}, force=True)
    both: Object = {"f:data": {"f:a": {}, "f:b": {}}}
    assert (forced["data"], fields(forced)) == (
        {"a": "2", "b": "1"},
        {"one": {"f:data": {".": {}, "f:b": {}}}, "two": both},
    )


def test_a_field_of_a_writer_stays_if_another_manager_no_longer_applies_it() -> None:
    old = apply(write(None, config_map({"a": "1"})), {"a": "1", "b": "1"})
    assert apply(old, {})["data"] == {"a": "1"}


@pytest.mark.parametrize(
    ("manager", "now", "conflict"), [("kubectl", "1", False), ("kubectl", "3", True), ("two", "1", True)]
)
def test_kubectl_takes_over_what_it_has_applied_before(manager: str, now: str, conflict: bool) -> None:
    annotation = {"kubectl.kubernetes.io/last-applied-configuration": '{"data": {"a": "1"}}'}
    old = write(None, config_map({"a": now}, annotations=annotation))
    try:
        assert (apply(old, {"a": "2"}, manager)["data"], conflict) == ({"a": "2"}, False)
    except ApiError:
        assert conflict


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("f:spec", "f:containers", 'k:{"name":"main"}', "f:image"), '.spec.containers[name="main"].image'),
        (("f:metadata", "f:finalizers", 'v:"a"'), '.metadata.finalizers[="a"]'),
    ],
)
def test_a_path_is_shown_as_kubernetes_shows_it(path: tuple[str, ...], text: str) -> None:
    assert path_text(path) == text


def test_fields_survive_as_paths() -> None:
    recorded = {"f:data": {".": {}, "f:b": {}}, "f:metadata": {"f:labels": {"f:x": {}}}}
    assert fields_of(paths_of(recorded)) == recorded


async def test_requests_record_their_clients(web: Web) -> None:
    await web.call("POST", f"{PATH}?fieldManager=one", json=config_map({"a": "1"}))
    await web.call("PATCH", f"{PATH}/a", json={"data": {"b": "1"}}, headers={**MERGE, "User-Agent": "tool/1.0 (linux)"})
    refused, _ = await web.call("PATCH", f"{PATH}/a?fieldManager=three", json=config_map({"a": "2"}), headers=APPLY)
    _, forced = await web.call(
        "PATCH", f"{PATH}/a?fieldManager=three&force=true", json=config_map({"a": "2"}), headers=APPLY
    )
    assert (refused, forced["data"]) == (409, {"a": "2", "b": "1"})
    assert [(entry["manager"], entry["operation"]) for entry in forced["metadata"]["managedFields"]] == [
        *(("three", "Apply"), ("one", "Update"), ("tool", "Update")),
    ]


async def test_an_applied_object_has_only_the_applied_metadata(web: Web) -> None:
    code, created = await web.call("PATCH", f"{PATH}/a?fieldManager=one", json=config_map({"a": "1"}), headers=APPLY)
    assert (code, "Warning" in created) == (201, False)
    assert created["metadata"].keys() == {
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "resourceVersion",
        "managedFields",
    }
