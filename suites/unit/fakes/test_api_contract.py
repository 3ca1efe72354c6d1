"""The behavior that every client of an API server can rely on, for each implementation of the Protocol."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from drahealth.fakes.cluster.api import (
    CLAIMS,
    DEVICE_CLASSES,
    NAMESPACES,
    NODES,
    PODS,
    SLICES,
    ApiError,
    ControlPlaneApi,
    Kind,
    ListWatch,
    Object,
    WatchEvent,
)
from drahealth.fakes.cluster.api_server.http import HttpApi
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.cluster.kube_client import KubeClient
from drahealth.suites.unit.endings import PATIENCE

NAMESPACE = "story"
CLASS: Object = {"metadata": {"name": "gpu"}, "spec": {}}


def pod(name: str = "train", **metadata: Any) -> Object:
    spec: Object = {"containers": [{"name": "main", "image": "image", "resources": {"claims": [{"name": "gpu"}]}}]}
    spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "gpu"}]
    return {"metadata": {"name": name, "namespace": NAMESPACE, **metadata}, "spec": spec}


def with_health(obj: Object, health: str) -> Object:
    resources = [{"resourceID": "driver/pool/gpu-0", "health": health}]
    entry = {"name": "claim:gpu", "resources": resources}
    status = {"name": "main", "ready": True, "restartCount": 0, "image": "i", "imageID": "i"}
    return {
        **obj,
        "status": {"phase": "Running", "containerStatuses": [{**status, "allocatedResourcesStatus": [entry]}]},
    }


async def seen(api: ListWatch, kind: Kind, number: int, since: str | None = None) -> list[WatchEvent]:
    """The first events of a watch."""
    async with aclosing(api.watch(kind, NAMESPACE, since=since)) as watch:
        return await taken(watch, number)


async def taken(watch: AsyncIterator[WatchEvent], number: int) -> list[WatchEvent]:
    """The next events, each within two seconds."""
    return [await asyncio.wait_for(anext(watch), PATIENCE) for _ in range(number)]


def briefly(events: list[WatchEvent]) -> list[tuple[str, str]]:
    return [(event.type, event.object["metadata"]["name"]) for event in events]


@pytest.fixture(params=["in process", "over HTTP"])
async def api(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ListWatch]:
    server = ApiServer()
    await server.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    if request.param == "in process":
        yield server
        return
    http = HttpApi(server)
    await http.start()
    http.write_kubeconfig(tmp_path / "kubeconfig")
    client = await KubeClient.from_kubeconfig(tmp_path / "kubeconfig")
    yield client
    await client.close()
    await http.stop()


async def test_created_object_gets_the_server_fields(api: ListWatch) -> None:
    created = await api.create(PODS, pod())
    metadata = created["metadata"]
    assert {"uid", "resourceVersion", "creationTimestamp"} <= metadata.keys()
    assert (created["kind"], created["apiVersion"], metadata["generation"]) == ("Pod", "v1", 1)
    assert created["status"]["phase"] == "Pending"
    assert await api.get(PODS, "train", NAMESPACE) == created


async def test_a_generated_name_is_the_prefix_and_five_letters(api: ListWatch) -> None:
    template = pod()
    template["metadata"] = {"generateName": "train-", "namespace": NAMESPACE}
    names = {(await api.create(PODS, template))["metadata"]["name"] for _ in range(3)}
    assert len(names) == 3
    assert {(name[:6], len(name)) for name in names} == {("train-", 11)}


@pytest.mark.parametrize(
    ("obj", "status", "reason"),
    [
        (pod(), 409, "AlreadyExists"),
        (pod(name=""), 422, "Invalid"),
        (pod(name="Not_a_name"), 422, "Invalid"),
        (pod("other", namespace="nowhere"), 404, "NotFound"),
        (pod("other", namespace=""), 400, "BadRequest"),
        (pod("other", resourceVersion="5"), 500, "InternalServerError"),
        ({"metadata": {"name": "other", "namespace": NAMESPACE}, "spec": {"containers": []}}, 422, "Invalid"),
        ({"metadata": {"name": "other", "namespace": NAMESPACE}, "kind": "Node"}, 400, "BadRequest"),
    ],
)
async def test_invalid_create_is_rejected(api: ListWatch, obj: Object, status: int, reason: str) -> None:
    await api.create(PODS, pod())
    with pytest.raises(ApiError) as refusal:
        await api.create(PODS, obj)
    assert (refusal.value.status, refusal.value.reason) == (status, reason)


async def test_missing_object_is_not_found(api: ListWatch) -> None:
    for call in (api.get(PODS, "x", NAMESPACE), api.delete(PODS, "x", NAMESPACE), api.replace(PODS, pod("x"))):
        with pytest.raises(ApiError) as refusal:
            await call
        assert (refusal.value.status, refusal.value.message) == (404, 'pods "x" not found')


async def test_lists_are_of_one_namespace_or_of_all(api: ListWatch) -> None:
    await api.create(NAMESPACES, {"metadata": {"name": "other"}})
    await api.create(PODS, pod("b"))
    await api.create(PODS, pod("a"))
    await api.create(PODS, pod("c", namespace="other"))
    listed = [obj["metadata"]["name"] for obj in await api.list(PODS, NAMESPACE)]
    assert (listed, len(await api.list(PODS))) == (["a", "b"], 3)
    assert {(obj["kind"], obj["apiVersion"]) for obj in await api.list(PODS)} == {("Pod", "v1")}


async def test_replace_keeps_the_status_and_increments_the_generation(api: ListWatch) -> None:
    created = await api.create(DEVICE_CLASSES, CLASS)
    created["spec"]["selectors"] = [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]
    changed = await api.replace(DEVICE_CLASSES, created)
    claimed = await api.create(PODS, pod())
    labelled = await api.replace(PODS, {**pod(labels={"a": "b"}), "status": {"phase": "Failed"}})
    assert changed["metadata"]["generation"] == 2
    assert (labelled["status"], labelled["metadata"]["labels"]) == (claimed["status"], {"a": "b"})
    assert labelled["metadata"]["generation"] == 1


async def test_a_status_write_leaves_spec_and_metadata(api: ListWatch) -> None:
    created = await api.create(PODS, pod())
    wanted = with_health({**created, "spec": {}}, "Unhealthy")
    stored = await api.replace_status(PODS, wanted)
    assert stored["spec"] == created["spec"]
    assert stored["status"]["containerStatuses"][0]["allocatedResourcesStatus"] == [
        {"name": "claim:gpu", "resources": [{"resourceID": "driver/pool/gpu-0", "health": "Unhealthy"}]}
    ]


@pytest.mark.parametrize("call", ["replace", "replace_status"])
async def test_a_write_over_an_older_version_conflicts(api: ListWatch, call: str) -> None:
    old = await api.create(PODS, pod())
    await api.replace_status(PODS, with_health(old, "Healthy"))
    with pytest.raises(ApiError) as refusal:
        await getattr(api, call)(PODS, {**old, "status": {"phase": "Failed"}})
    assert (refusal.value.status, refusal.value.reason) == (409, "Conflict")
    del old["metadata"]["resourceVersion"]
    await getattr(api, call)(PODS, old)


async def test_write_without_change_keeps_the_revision(api: ListWatch) -> None:
    first = await api.replace_status(PODS, with_health(await api.create(PODS, pod()), "Healthy"))
    again = await api.replace_status(PODS, with_health(first, "Healthy"))
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_the_spec_of_a_pod_is_immutable_but_for_its_images(api: ListWatch) -> None:
    created = await api.create(PODS, pod())
    created["spec"]["containers"][0]["image"] = "other"
    changed = await api.replace(PODS, created)
    changed["spec"]["nodeName"] = "node"
    with pytest.raises(ApiError, match="pod updates may not change fields other than"):
        await api.replace(PODS, changed)


async def test_a_kind_without_status_has_no_status_subresource(api: ListWatch) -> None:
    created = await api.create(DEVICE_CLASSES, CLASS)
    with pytest.raises(ApiError) as refusal:
        await api.replace_status(DEVICE_CLASSES, {**created, "status": {}})
    assert refusal.value.status == 404


async def test_invalid_entry_rejects_the_whole_status(api: ListWatch) -> None:
    created = await api.create(PODS, pod())
    with pytest.raises(ApiError) as refusal:
        await api.replace_status(PODS, with_health(created, "Sick"))
    path = "status.containerStatuses[0].allocatedResourcesStatus[0].resources[0].health"
    supported = 'supported values: "Healthy", "Unhealthy", "Unknown"'
    assert refusal.value.message == f'Pod "train" is invalid: {path}: Unsupported value: "Sick": {supported}'
    assert (await api.get(PODS, "train", NAMESPACE))["status"]["phase"] == "Pending"


async def test_unscheduled_pod_is_deleted_at_once(api: ListWatch) -> None:
    await api.create(PODS, pod())
    await api.delete(PODS, "train", NAMESPACE)
    assert await api.list(PODS, NAMESPACE) == []


async def test_scheduled_pod_is_deleted_after_its_grace_period(api: ListWatch) -> None:
    bound = pod()
    bound["spec"]["nodeName"] = "node"
    await api.create(PODS, bound)
    await api.delete(PODS, "train", NAMESPACE)
    await api.delete(PODS, "train", NAMESPACE, grace=60)
    first = (await api.get(PODS, "train", NAMESPACE))["metadata"]
    await api.delete(PODS, "train", NAMESPACE, grace=5)
    second = (await api.get(PODS, "train", NAMESPACE))["metadata"]
    await api.delete(PODS, "train", NAMESPACE, grace=0)
    assert [m["deletionGracePeriodSeconds"] for m in (first, second)] == [30, 5]
    assert second["deletionTimestamp"] < first["deletionTimestamp"]
    assert await api.list(PODS, NAMESPACE) == []


async def test_terminal_pod_is_deleted_at_once(api: ListWatch) -> None:
    bound = pod()
    bound["spec"]["nodeName"] = "node"
    await api.replace_status(PODS, {**await api.create(PODS, bound), "status": {"phase": "Succeeded"}})
    await api.delete(PODS, "train", NAMESPACE)
    assert await api.list(PODS, NAMESPACE) == []


async def test_an_object_waits_for_its_last_finalizer(api: ListWatch) -> None:
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}
    metadata = {"name": "held", "namespace": NAMESPACE, "finalizers": ["drahealth.test/held"]}
    await api.create(CLAIMS, {"metadata": metadata, "spec": spec})
    await api.delete(CLAIMS, "held", NAMESPACE)
    held = await api.get(CLAIMS, "held", NAMESPACE)
    assert "deletionTimestamp" in held["metadata"]
    held["metadata"]["finalizers"] = []
    await api.replace(CLAIMS, held)
    assert await api.list(CLAIMS, NAMESPACE) == []


async def test_watch_sends_existing_objects_and_then_every_change_in_order(api: ListWatch) -> None:
    await api.create(PODS, pod("a"))
    async with aclosing(api.watch(PODS, NAMESPACE)) as watch:
        events = await taken(watch, 1)
        created = await api.create(PODS, pod("b"))
        events += await taken(watch, 1)
        for health in ("Healthy", "Unhealthy", "Unknown", "Healthy", "Unhealthy"):
            await api.replace_status(PODS, with_health({**created, "metadata": pod("b")["metadata"]}, health))
        await api.delete(PODS, "b", NAMESPACE)
        events += await taken(watch, 7)
    assert briefly(events) == [("ADDED", "a"), ("ADDED", "b"), *[("MODIFIED", "b")] * 6, ("DELETED", "b")]
    versions = [int(event.object["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(set(versions))


async def test_watch_continues_from_a_snapshot_without_loss(api: ListWatch) -> None:
    await api.create(PODS, pod("a"))
    objects, revision = await api.snapshot(PODS, NAMESPACE)
    await api.create(PODS, pod("b"))
    await api.delete(PODS, "a", NAMESPACE)
    await api.create(PODS, pod("c"))
    assert [obj["metadata"]["name"] for obj in objects] == ["a"]
    events = await seen(api, PODS, 4, since=revision)
    assert briefly(events) == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "a"), ("ADDED", "c")]


async def test_a_watch_of_a_namespace_sees_no_other(api: ListWatch) -> None:
    await api.create(PODS, pod("c", namespace="default"))
    await api.create(PODS, pod("a"))
    await api.create(PODS, pod("d", namespace="default"))
    await api.create(PODS, pod("b"))
    assert briefly(await seen(api, PODS, 2)) == [("ADDED", "a"), ("ADDED", "b")]


async def test_kinds_without_a_namespace_are_served_too(api: ListWatch) -> None:
    spec = {"driver": "gpu.example.com", "nodeName": "node", "pool": {"name": "node", "resourceSliceCount": 1}}
    await api.create(SLICES, {"metadata": {"name": "slice"}, "spec": {**spec, "devices": [{"name": "gpu-0"}]}})
    node = await api.create(NODES, {"metadata": {"name": "node"}})
    await api.replace_status(NODES, {**node, "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    await api.delete(SLICES, "slice")
    assert (await api.get(NODES, "node"))["status"]["conditions"][0]["type"] == "Ready"
    assert await api.list(SLICES) == []


# Server-side apply


def gpu(**metadata: Any) -> Object:
    return {"metadata": {"name": "gpu", **metadata}}


async def test_apply_creates_changes_and_removes_the_fields_of_its_manager(api: ControlPlaneApi) -> None:
    created = await api.apply(DEVICE_CLASSES, gpu(labels={"a": "1", "b": "1"}), "one")
    await api.apply(DEVICE_CLASSES, gpu(labels={"b": "2"}), "two")
    changed = await api.apply(DEVICE_CLASSES, gpu(labels={"c": "3"}), "one")
    assert changed["metadata"]["labels"] == {"b": "2", "c": "3"}
    assert changed["metadata"]["uid"] == created["metadata"]["uid"]


async def test_dry_run_of_apply_stores_nothing(api: ControlPlaneApi) -> None:
    applied = await api.apply(DEVICE_CLASSES, gpu(labels={"a": "1"}), "one", dry_run=True)
    assert (applied["metadata"]["labels"], await api.list(DEVICE_CLASSES)) == ({"a": "1"}, [])


async def test_apply_rejects_unknown_fields_and_wrong_types(api: ControlPlaneApi) -> None:
    with pytest.raises(ApiError, match="field not declared in schema"):
        await api.apply(DEVICE_CLASSES, {**gpu(), "spec": {"colour": "red"}}, "one")
    with pytest.raises(ApiError, match=r"metadata\.finalizers"):
        await api.apply(DEVICE_CLASSES, gpu(finalizers="none"), "one")
