"""Patches and label selectors over HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
import pytest

from drahealth.fakes.cluster.api import CLAIMS, EVENTS, NODES, PODS, Object
from drahealth.fakes.cluster.api_server.http import HttpApi
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.suites.unit.endings import PATIENCE
from drahealth.suites.unit.fakes.test_api_http import session_with

MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
POD, CLAIM = "/api/v1/namespaces/default/pods/train", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/gpu"
DEVICE = {"driver": "net.example.com", "pool": "node-a", "device": "eth1"}


class Web:
    """A server with a Pod and a claim, and a session with it."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self.server = ApiServer()
        self.http = HttpApi(self.server)
        self.stack = stack

    async def start(self) -> None:
        metadata = {"name": "train", "namespace": "default", "labels": {"app": "a"}, "finalizers": ["x/y"]}
        await self.server.create(
            PODS, {"metadata": metadata, "spec": {"containers": [{"name": "main", "image": "training"}]}}
        )
        await self.server.create(CLAIMS, {"metadata": {"name": "gpu", "namespace": "default"}, "spec": {}})
        await self.http.start()
        self.stack.push_async_callback(self.http.stop)
        self.session = await self.stack.enter_async_context(session_with(self.http))

    async def patch(self, path: str, media_type: str, body: Any) -> tuple[int, Any]:
        given: dict[str, Any] = {"headers": {"Content-Type": media_type}, "data": json.dumps(body)}
        async with self.session.patch(self.http.url + path, **given) as response:
            return response.status, await response.json()

    async def watch(self, path: str) -> aiohttp.StreamReader:
        """The lines of a watch, which has begun."""
        response = await self.stack.enter_async_context(self.session.get(f"{self.http.url}{path}&watch=true"))
        return response.content

    async def names(self, selector: str) -> list[str]:
        params = {"labelSelector": selector}
        async with self.session.get(f"{self.http.url}/api/v1/nodes", params=params) as response:
            return [obj["metadata"]["name"] for obj in (await response.json())["items"]]


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    async with AsyncExitStack() as stack:
        web = Web(stack)
        await web.start()
        yield web


@pytest.mark.parametrize("media_type", [MERGE, STRATEGIC, f"{MERGE}; charset=utf-8"])
async def test_labels_and_annotations_are_patched(web: Web, media_type: str) -> None:
    metadata = {"labels": {"app": None, "tier": "b"}, "annotations": {"a": "b"}}
    status, pod = await web.patch(POD, media_type, {"metadata": metadata, "status": {"phase": "Failed"}})
    assert (status, pod["metadata"]["labels"], pod["metadata"]["annotations"]) == (200, {"tier": "b"}, {"a": "b"})
    assert (pod["status"]["phase"], await web.server.get(PODS, "train", "default")) == ("Pending", pod)


async def test_patch_of_the_status_of_a_pod_changes_labels_too(web: Web) -> None:
    condition = {"type": "Ready", "status": "True"}
    change = {"metadata": {"labels": {"x": "y"}}, "status": {"conditions": [condition]}}
    status, pod = await web.patch(f"{POD}/status", STRATEGIC, change)
    assert (status, pod["metadata"]["labels"], pod["status"]) == (
        200,
        {"app": "a", "x": "y"},
        {"phase": "Pending", "qosClass": "BestEffort", "conditions": [condition]},
    )


async def test_a_driver_applies_the_device_status_of_its_claim(web: Web) -> None:
    identity = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "gpu"}}
    path = f"{CLAIM}/status?fieldManager=net.example.com&force=true"
    status, claim = await web.patch(path, APPLY, {**identity, "status": {"devices": [DEVICE]}})
    assert (status, claim["status"]) == (200, {"devices": [DEVICE]})
    _, same = await web.patch(path, APPLY, {**identity, "status": {"devices": [DEVICE]}})
    assert same == claim
    _, empty = await web.patch(path, APPLY, identity)
    assert empty["status"] == {}


async def test_a_claim_is_patched_in_each_version(web: Web) -> None:
    for version in ("v1", "v1beta2", "v1beta1"):
        path = CLAIM.replace("/v1/", f"/{version}/")
        device = {**DEVICE, "shareID": version}
        patch = {
            "apiVersion": f"resource.k8s.io/{version}",
            "kind": "ResourceClaim",
            "metadata": {"name": "gpu"},
            "status": {"devices": [device]},
        }
        status, claim = await web.patch(f"{path}/status?fieldManager={version}", APPLY, patch)
        assert (status, claim["apiVersion"]) == (200, patch["apiVersion"])
        assert (await web.patch(path, MERGE, {"metadata": {"labels": {version: "x"}}}))[0] == 200
    claim = await web.server.get(CLAIMS, "gpu", "default")
    assert [device["shareID"] for device in claim["status"]["devices"]] == ["v1", "v1beta2", "v1beta1"]
    assert claim["metadata"]["labels"].keys() == {"v1", "v1beta2", "v1beta1"}


async def test_apply_creates_an_object_that_does_not_exist(web: Web) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "b", "labels": {"a": "b"}}}
    path = "/api/v1/nodes/b?fieldManager=me"
    assert [(await web.patch(path, APPLY, node))[0] for _ in range(2)] == [201, 200]
    assert (await web.server.get(NODES, "b"))["metadata"]["labels"] == {"a": "b"}


OF_POD = {"apiVersion": "v1", "kind": "Pod"}
OF_CLAIM = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}


@pytest.mark.parametrize(
    ("path", "media_type", "body", "status", "reason"),
    [
        (POD, "application/json-patch+json", {}, 400, "BadRequest"),
        (POD, "application/json", {}, 415, "UnsupportedMediaType"),
        (POD, "application/apply-patch+cbor", {}, 415, "UnsupportedMediaType"),
        (POD, MERGE, [], 400, "BadRequest"),
        (POD, MERGE, {"metadata": None}, 400, "BadRequest"),
        (POD, MERGE, {"metadata": {"labels": {"a": 1}}}, 422, "Invalid"),
        (POD, MERGE, {"metadata": {"name": "other"}}, 400, "BadRequest"),
        (POD, MERGE, {"kind": "Node"}, 400, "BadRequest"),
        (POD, MERGE, {"metadata": {"resourceVersion": "1"}}, 409, "Conflict"),
        (POD, MERGE, {"metadata": {"uid": "other"}}, 422, "Invalid"),
        (POD, STRATEGIC, {"metadata": {"resourceVersion": "1"}}, 409, "Conflict"),
        (POD, MERGE, {"spec": {"nodeName": "b"}}, 422, "Invalid"),
        (POD, APPLY, {"metadata": {"name": "train"}}, 422, "Invalid"),
        (f"{POD}?fieldManager=m", APPLY, {**OF_POD, "metadata": {"resourceVersion": "1"}}, 409, "Conflict"),
        (f"{POD}?fieldManager=m", APPLY, {"kind": "Node", "metadata": {}}, 400, "BadRequest"),
        (f"{CLAIM}x", MERGE, {}, 404, "NotFound"),
        (f"{CLAIM}x/status?fieldManager=m", APPLY, {**OF_CLAIM, "metadata": {}}, 404, "NotFound"),
    ],
)
async def test_invalid_patch_is_rejected_and_changes_nothing(
    web: Web, path: str, media_type: str, body: Any, status: int, reason: str
) -> None:
    before = await web.server.get(PODS, "train", "default")
    code, answer = await web.patch(path, media_type, body)
    assert (code, answer["kind"], answer["reason"]) == (status, "Status", reason)
    assert await web.server.get(PODS, "train", "default") == before


async def test_a_patch_with_the_current_revision_is_made(web: Web) -> None:
    before = await web.server.get(PODS, "train", "default")
    revision = before["metadata"]["resourceVersion"]
    status, after = await web.patch(POD, MERGE, {"metadata": {"resourceVersion": revision, "labels": {"a": "b"}}})
    assert (status, int(after["metadata"]["resourceVersion"]) > int(revision)) == (200, True)
    assert (await web.patch(POD, MERGE, {}))[1] == after


async def test_a_patch_that_removes_the_last_finalizer_ends_a_deletion(web: Web) -> None:
    await web.server.delete(PODS, "train", "default")
    status, _ = await web.patch(POD, STRATEGIC, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/y"]}})
    assert (status, await web.server.list(PODS)) == (200, [])


async def test_a_list_has_the_objects_with_the_labels(web: Web) -> None:
    for name in "ab":
        await web.server.create(NODES, {"metadata": {"name": name, "labels": {"tier": name}}})
    found = [await web.names(selector) for selector in ("tier=a", "tier in (a,b)", "!tier", "tier notin (a)")]
    assert found == [["a"], ["a", "b"], [], ["b"]]


async def event(lines: aiohttp.StreamReader) -> tuple[str, Object]:
    async with asyncio.timeout(PATIENCE):
        found = json.loads(await lines.readline())
    return found["type"], found["object"]["metadata"]


@pytest.mark.parametrize("since", ["", "&resourceVersion={revision}"])
async def test_a_watch_follows_the_objects_that_match(web: Web, since: str) -> None:
    path = f"/api/v1/nodes?labelSelector=a%3Db{since.format(revision=(await web.server.snapshot(NODES)).revision)}"
    lines = await web.watch(path)
    for labels in ({}, {"a": "b"}, {"a": "b", "c": "d"}, {"a": "c"}, {"a": "b"}):
        if labels:
            await web.server.replace(NODES, {"metadata": {"name": "n", "labels": labels}})
        else:
            await web.server.create(NODES, {"metadata": {"name": "n"}})
    await web.server.delete(NODES, "n")
    found = [await event(lines) for _ in range(5)]
    assert [type_ for type_, _ in found] == ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]
    assert found[2][1]["labels"] == {"a": "b", "c": "d"}  # as it was while it matched
    revisions = [int(metadata["resourceVersion"]) for _, metadata in found]
    assert revisions == sorted(set(revisions))


async def test_a_watch_with_initial_events_has_those_that_match(web: Web) -> None:
    for name in "ab":
        await web.server.create(NODES, {"metadata": {"name": name, "labels": {"tier": name}}})
    initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    lines = await web.watch(f"/api/v1/nodes?labelSelector=tier%3Db&{initial}")
    found = [await event(lines) for _ in range(2)]
    assert [(type_, metadata.get("name")) for type_, metadata in found] == [("ADDED", "b"), ("BOOKMARK", None)]


async def test_a_bound_pod_is_added_for_its_node(web: Web) -> None:
    await web.server.create(NODES, {"metadata": {"name": "node-a"}})
    lines = await web.watch("/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-a")
    await web.server.bind("train", "default", "node-a")
    assert [type_ for type_, _ in [await event(lines)]] == ["ADDED"]


@pytest.mark.parametrize(("path", "field"), [("/api/v1", "involvedObject"), ("/apis/events.k8s.io/v1", "regarding")])
async def test_events_are_listed_by_their_object(web: Web, path: str, field: str) -> None:
    for name in "ab":
        metadata = {"name": name, "namespace": "default"}
        await web.server.create(EVENTS, {"metadata": metadata, "involvedObject": {"kind": "Pod", "name": name}})
    async with web.session.get(f"{web.http.url}{path}/events?fieldSelector={field}.name%3Db") as response:
        found = (await response.json())["items"]
    assert [obj["metadata"]["name"] for obj in found] == ["b"]
