"""The in-memory API server over HTTP, as any client sees it."""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from drahealth.fakes.cluster.api import CRDS, KINDS, NODES, Kind, Snapshot, WatchEvent
from drahealth.fakes.cluster.api_server.http import HttpApi
from drahealth.fakes.cluster.api_server.lists import Matches, everything
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.suites.unit.endings import PATIENCE
from drahealth.suites.unit.manager.rig import until

RACKS = {
    "metadata": {"name": "racks.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Cluster",
        "names": {"kind": "Rack", "plural": "racks", "singular": "rack", "shortNames": ["ra"]},
        "versions": [{"name": "v1", "served": True, "storage": True}],
    },
}
JSON = {"headers": {"Content-Type": "application/json"}}


class WatchedServer(ApiServer):
    """Knows when a watch was left."""

    def __init__(self) -> None:
        super().__init__()
        self.left = asyncio.Event()

    async def watch(
        self, kind: Kind, namespace: str | None = None, since: str | None = None, matches: Matches = everything
    ) -> AsyncGenerator[WatchEvent, None]:
        try:
            async for event in super().watch(kind, namespace, since, matches):
                yield event
        finally:
            self.left.set()


class Web:
    """A server and a session with it."""

    session: aiohttp.ClientSession

    def __init__(self) -> None:
        self.server = WatchedServer()
        self.http = HttpApi(self.server)

    async def call(self, method: str, path: str, **options: Any) -> tuple[int, Any]:
        async with self.session.request(method, self.http.url + path, **options) as response:
            text = await response.text()
        return response.status, json.loads(text) if text.startswith("{") else text


def session_with(http: HttpApi) -> aiohttp.ClientSession:
    """A session with the credentials of the server."""
    headers = {"Authorization": f"Bearer {http.credentials.token}"}
    connector = aiohttp.TCPConnector(ssl=http.credentials.client_tls())
    return aiohttp.ClientSession(connector=connector, headers=headers)


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    web = Web()
    await web.http.start()
    async with session_with(web.http) as web.session:
        yield web
    await web.http.stop()


async def test_discovery_lists_the_served_kinds(web: Web) -> None:
    served = set()
    for path in {kind.path().rpartition("/")[0] for kind in KINDS}:
        _, listed = await web.call("GET", path)
        served |= {(resource["kind"], resource["name"]) for resource in listed["resources"]}
    assert {(kind.kind, kind.plural) for kind in KINDS} <= served
    assert ("Pod", "pods/status") in served
    assert (await web.call("GET", "/version"))[1]["minor"] == "37"
    groups = (await web.call("GET", "/apis"))[1]["groups"]
    assert [group["name"].removesuffix(".k8s.io") for group in groups] == [
        *("apiextensions", "apps", "authentication", "authorization", "coordination", "events", "policy", "resource"),
    ]


async def test_one_document_can_have_all_kinds(web: Web) -> None:
    wanted = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"}
    await web.server.create(CRDS, RACKS)
    documents = [(await web.call("GET", path, headers=wanted))[1] for path in ("/api", "/apis")]
    found = {
        f"{group['metadata'].get('name', '')}/{version['version']}/{one['resource']}": one
        for document in documents
        for group in document["items"]
        for version in group["versions"]
        for one in version["resources"]
    }
    eviction = {"group": "policy", "version": "v1", "kind": "Eviction"}
    pods, racks = found["/v1/pods"], found["example.com/v1/racks"]
    assert {document["kind"] for document in documents} == {"APIGroupDiscoveryList"}
    assert {one["subresource"]: one["responseKind"] for one in pods["subresources"]}["eviction"] == eviction
    assert (pods["shortNames"], pods["categories"], pods["scope"]) == (["po"], ["all"], "Namespaced")
    assert (racks["shortNames"], racks["singularResource"], racks["scope"]) == (["ra"], "rack", "Cluster")


async def test_the_documents_of_a_group_and_of_the_core_name_the_server(web: Web) -> None:
    core, group = [(await web.call("GET", path))[1] for path in ("/api/", "/apis/policy")]
    assert web.http.url.endswith(core["serverAddressByClientCIDRs"][0]["serverAddress"])
    assert (group["kind"], group["preferredVersion"]["groupVersion"]) == ("APIGroup", "policy/v1")


async def test_health_endpoint_follows_the_server(web: Web) -> None:
    assert await web.call("GET", "/readyz") == (200, "ok")
    web.server.down()
    status, body = await web.call("GET", "/readyz")
    assert (status, body["kind"], body["reason"]) == (503, "Status", "ServiceUnavailable")


@pytest.mark.parametrize(
    ("method", "path", "options", "status", "message"),
    [
        ("GET", "/api/v1/endpoints", {}, 404, "the server could not find the requested resource"),
        ("PATCH", "/api/v1/nodes", {}, 405, "the server does not allow this method"),
        ("GET", "/api/v1/nodes?labelSelector=a%20b", {}, 400, "invalid label selector 'a b' at 'a b'"),
        ("POST", "/api/v1/nodes", {"data": "a: b", **JSON}, 400, "the body is not JSON"),
        ("POST", "/api/v1/nodes?dryRun=Some", {"json": {}}, 422, 'dryRun: Unsupported value: ["Some"]'),
        ("POST", "/api/v1/nodes", {"json": []}, 400, "the body must be an object, got list"),
        (
            "POST",
            "/api/v1/nodes",
            {"json": {"metadata": 1, "kind": "Node"}},
            400,
            "must be an object with metadata",
        ),
        (
            "PUT",
            "/api/v1/nodes/a",
            {"json": {"metadata": {"name": "b"}}},
            400,
            "does not match the name on the URL",
        ),
        ("DELETE", "/api/v1/nodes/a?gracePeriodSeconds=x", {}, 400, 'parsing "x": invalid syntax'),
        ("GET", "/api/v1/nodes/a", {}, 404, 'nodes "a" not found'),
    ],
)
async def test_rejections_are_status_objects(
    web: Web, method: str, path: str, options: dict[str, Any], status: int, message: str
) -> None:
    code, body = await web.call(method, path, **options)
    assert (code, body["kind"], body["status"], body["code"]) == (status, "Status", "Failure", status)
    assert message in body["message"]


async def test_the_namespace_of_the_path_is_the_objects(web: Web) -> None:
    body = {"metadata": {"name": "train"}, "spec": {"containers": [{"name": "main", "image": "training"}]}}
    status, created = await web.call("POST", "/api/v1/namespaces/default/pods", json=body)
    assert (status, created["metadata"]["namespace"]) == (201, "default")
    status, _ = await web.call("DELETE", "/api/v1/namespaces/default/pods/train", json={"gracePeriodSeconds": 0})
    assert (status, await web.server.list(KINDS[0])) == (200, [])


async def test_watch_can_request_a_bookmark_after_existing_objects(web: Web) -> None:
    await web.server.create(NODES, {"metadata": {"name": "a"}})
    query = "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    async with web.session.get(web.http.url + "/api/v1/nodes" + query) as response:
        added, bookmark = [json.loads(await response.content.readline()) for _ in range(2)]
    assert (added["type"], bookmark["type"]) == ("ADDED", "BOOKMARK")
    metadata = bookmark["object"]["metadata"]
    assert metadata["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert metadata["resourceVersion"] == added["object"]["metadata"]["resourceVersion"]


async def test_lists_and_watches_select_by_fields(web: Web) -> None:
    for name in ("a", "b"):
        await web.server.create(NODES, {"metadata": {"name": name}})
    path = "/api/v1/nodes?fieldSelector=metadata.name%3Db"
    _, listed = await web.call("GET", path)
    async with web.session.get(f"{web.http.url}{path}&watch=true") as response:
        event = json.loads(await response.content.readline())
    assert [obj["metadata"]["name"] for obj in (*listed["items"], event["object"])] == ["b", "b"]


async def test_it_stops_at_once_with_watches_open(web: Web) -> None:
    async with web.session.get(web.http.url + "/api/v1/nodes?watch=true"):
        await asyncio.wait_for(web.http.stop(), PATIENCE)


async def test_disconnected_client_leaves_no_watcher(web: Web) -> None:
    await web.server.create(NODES, {"metadata": {"name": "a"}})
    async with web.session.get(web.http.url + "/api/v1/nodes?watch=true") as response:
        await response.content.readline()
        assert not web.server.left.is_set()
    await asyncio.wait_for(web.server.left.wait(), PATIENCE)


def test_it_has_no_url_before_it_is_started() -> None:
    with pytest.raises(RuntimeError, match="call start first"):
        _ = HttpApi(ApiServer()).url


class LeftServer(ApiServer):
    """The client closes the connection during a list request."""

    caller: asyncio.StreamWriter

    async def snapshot(self, kind: Kind, namespace: str | None = None, matches: Matches = everything) -> Snapshot:
        found = await super().snapshot(kind, namespace, matches)
        reset = struct.pack("ii", 1, 0)
        self.caller.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
        self.caller.transport.abort()
        with suppress(OSError):
            await self.caller.wait_closed()
        return found


async def test_client_that_disconnects_early_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    server = LeftServer()
    for name in "abc":
        await server.create(NODES, {"metadata": {"name": name}})
    http = HttpApi(server)
    address = urlsplit(await http.start())
    tls = http.credentials.client_tls()
    _, server.caller = await asyncio.open_connection(address.hostname, address.port, ssl=tls)
    query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    request = f"GET /api/v1/nodes?{query} HTTP/1.1\r\nHost: {address.netloc}\r\n"
    server.caller.write(f"{request}Authorization: Bearer {http.credentials.token}\r\n\r\n".encode())
    await until(server.caller.transport.is_closing, 30)
    async with session_with(http) as session, session.get(f"{http.url}/version") as answer:
        assert answer.status == 200
    await http.stop()
    assert caplog.records == []
