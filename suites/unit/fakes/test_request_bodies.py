"""Bodies of requests to the in-memory API server, and log lines about unreadable bodies."""

import asyncio
import io
import logging
import zlib
from typing import Any
from urllib.parse import urlsplit

import pytest

from drahealth.fakes.cluster.api import SLICES
from drahealth.suites.unit.endings import PATIENCE
from drahealth.suites.unit.fakes.protobuf_encoder import body, encode
from drahealth.suites.unit.fakes.test_api_http import Web, web

__all__ = ["web"]  # the fixture

PROTOBUF = "application/vnd.kubernetes.protobuf"
SLICE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceSlice",
    "metadata": {"name": "node-a-gpu"},
    "spec": {
        "driver": "gpu.example.com",
        "nodeName": "node-a",
        "pool": {"name": "node-a", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0", "attributes": {"uuid": {"string": "GPU-1"}}}],
    },
}
PATH = "/apis/resource.k8s.io/v1/resourceslices"


async def send(
    web: Web, data: bytes, content_type: str = PROTOBUF, path: str = PATH, **headers: str
) -> tuple[int, Any]:
    return await web.call("POST", path, data=io.BytesIO(data), headers={"Content-Type": content_type, **headers})


async def test_a_protobuf_body_is_stored_as_its_json(web: Web) -> None:
    status, created = await send(web, encode(SLICE))
    assert (status, created["kind"]) == (201, "ResourceSlice")
    assert (await web.server.get(SLICES, "node-a-gpu"))["spec"] == SLICE["spec"]


async def test_delete_options_can_be_protobuf(web: Web) -> None:
    await web.server.create(SLICES, SLICE)
    options = {"apiVersion": "resource.k8s.io/v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
    headers = {"Content-Type": PROTOBUF}
    status, _ = await web.call("DELETE", f"{PATH}/node-a-gpu", data=encode(options), headers=headers)
    assert (status, await web.server.list(SLICES)) == (200, [])


@pytest.mark.parametrize(
    ("data", "content_type", "status", "reason"),
    [
        (b"garbage", PROTOBUF, 400, "BadRequest"),
        (encode(SLICE)[:-3], PROTOBUF, 400, "BadRequest"),
        (body("apps/v1", "Deployment", b""), PROTOBUF, 415, "UnsupportedMediaType"),
        (encode({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}), PROTOBUF, 400, "BadRequest"),
        (b"k8s\0" + bytes(3 * 2**20), PROTOBUF, 413, "RequestEntityTooLarge"),
        (b"{}" + b" " * 3 * 2**20, "application/json", 413, "RequestEntityTooLarge"),
        (b'{"metadata":' + b"[" * 100_000, "application/json", 400, "BadRequest"),
        (b'{"metadata":' + b"[" * 200 + b"]" * 200 + b"}", "application/json", 400, "BadRequest"),
        (b'{"metadata": {"name": NaN}}', "application/json", 400, "BadRequest"),
        (b"\xff\xfe", "application/json", 400, "BadRequest"),
    ],
)
async def test_an_unreadable_body_gets_a_status_and_one_log_line(
    web: Web, caplog: pytest.LogCaptureFixture, data: bytes, content_type: str, status: int, reason: str
) -> None:
    answers = [await send(web, data, content_type) for _ in range(3)]
    assert {(code, answer["kind"], answer["reason"]) for code, answer in answers} == {(status, "Status", reason)}
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


async def test_a_compressed_body_is_not_decompressed(web: Web) -> None:
    headers = {"Content-Encoding": "deflate"}
    status, answer = await send(web, zlib.compress(encode(SLICE)), **headers)
    assert (status, answer["kind"]) == (400, "Status")


async def test_malformed_http_is_logged_once_without_a_traceback(web: Web, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        assert (await raw(web, b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n")).startswith(b"HTTP/1.0 400 ")
    assert [(record.levelno, record.exc_info) for record in caplog.records] == [(logging.WARNING, None)]


async def test_disconnect_during_a_request_body_is_not_logged(web: Web, caplog: pytest.LogCaptureFixture) -> None:
    names = {"Host": urlsplit(web.http.url).netloc, "Authorization": f"Bearer {web.http.credentials.token}"}
    names |= {"Content-Type": PROTOBUF, "Content-Length": "100"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in names.items())
    await raw(web, f"POST {PATH} HTTP/1.1\r\n{lines}\r\nk8s\0".encode(), leave=True)
    assert (await web.call("GET", "/version"))[0] == 200
    assert caplog.records == []


async def raw(web: Web, request: bytes, *, leave: bool = False) -> bytes:
    """The answer to these bytes; empty if the client leaves first."""
    address = urlsplit(web.http.url)
    tls = web.http.credentials.client_tls()
    reader, writer = await asyncio.open_connection(address.hostname, address.port, ssl=tls)
    writer.write(request)
    await writer.drain()
    answer = b"" if leave else await asyncio.wait_for(reader.readline(), PATIENCE)
    writer.close()
    await writer.wait_closed()
    return answer


async def test_each_client_and_cause_is_logged_once(web: Web, caplog: pytest.LogCaptureFixture) -> None:
    for agent in ("driver/v1", "driver/v2", "driver/v1"):
        for kind in ("Deployment", "Job", "Deployment"):
            await send(web, body("apps/v1", kind, b""), **{"User-Agent": agent})
    lines = [record.getMessage() for record in caplog.records]
    assert all(PATH in line for line in lines)
    assert sorted(map(line_of, lines)) == [(f"driver/v{n}", kind) for n in (1, 2) for kind in ("Deployment", "Job")]


@pytest.mark.parametrize(
    ("data", "content_type", "status"),
    [(body("v1", "Endpoints", b""), PROTOBUF, 415), (b"{}", "application/json", 404)],
)
async def test_a_resource_that_is_not_served_is_logged_once(
    web: Web, caplog: pytest.LogCaptureFixture, data: bytes, content_type: str, status: int
) -> None:
    paths = [f"/api/v1/namespaces/{namespace}/endpoints" for namespace in ("a", "b")]
    answers = [await send(web, data, content_type, path) for path in paths]
    assert [(code, answer["kind"]) for code, answer in answers] == [(status, "Status")] * 2
    assert ["endpoints" in record.getMessage() for record in caplog.records] == [True]


async def test_probes_of_other_paths_are_not_logged(web: Web, caplog: pytest.LogCaptureFixture) -> None:
    answers = [await web.call("GET", path) for path in ("/openapi/v4", "/apis/none/v1", "/api/v1/nodes/none")]
    assert [status for status, _ in answers] == [404, 404, 404]
    assert caplog.records == []


def line_of(line: str) -> tuple[str, str]:
    """The client and the kind that a log line names."""
    agent = next(agent for agent in ("driver/v1", "driver/v2") if agent in line)
    return agent, next(kind for kind in ("Deployment", "Job") if kind in line)


async def test_unknown_fields_are_ignored_with_one_log_line(web: Web, caplog: pytest.LogCaptureFixture) -> None:
    pool = b"\x12\x05\x0a\x01p\x18\x01"  # name and resourceSliceCount
    spec = b"\x0a\x01d" + pool + b"\x1a\x01n" + bytes.fromhex("8a0601") + b"x"  # driver, pool, nodeName, number 97
    for name in (b"a", b"b"):
        raw = b"\x0a\x03\x0a\x01" + name + b"\x12" + bytes([len(spec)]) + spec
        assert (await send(web, body("resource.k8s.io/v1", "ResourceSlice", raw)))[0] == 201
    (line,) = [record.getMessage() for record in caplog.records]
    assert "ResourceSliceSpec field 97" in line
