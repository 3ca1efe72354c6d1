"""Authentication of clients of the in-memory API server over HTTP."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from drahealth.fakes.cluster.access import static_access
from drahealth.fakes.cluster.api import KINDS, NAMESPACES
from drahealth.fakes.cluster.api_server.http import Credentials, HttpApi
from drahealth.fakes.cluster.api_server.served_kinds import KindRegistry, documents
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.cluster.kube_client import KubeClient
from drahealth.fakes.cluster.kube_connection import access

PATHS = [
    *documents(KindRegistry(), "localhost"),
    *("/readyz", "/livez", "/healthz", "/", "/nowhere", "/metrics", "/api/v1/nodes?watch=true"),
    *(kind.path() for kind in KINDS),
    *(kind.path("default", "a") for kind in KINDS),
]
NODE = b'{"metadata": {"name": "a"}}'


@pytest.fixture
async def http() -> AsyncIterator[HttpApi]:
    http = HttpApi(ApiServer())
    await http.start()
    yield http
    await http.stop()


async def answer(http: HttpApi, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, Any]:
    """The status and body of the answer to a request with the token, unless the headers replace it."""
    given = {"Authorization": f"Bearer {http.credentials.token}", "Content-Type": "application/json"}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    connector = aiohttp.TCPConnector(ssl=http.credentials.client_tls())
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.request(method, http.url + path, data=body or None, headers=given) as response,
    ):
        return response.status, await response.json(content_type=None)


@pytest.mark.parametrize(
    "wrong", ["", "Bearer", "Bearer ", "Bearer wrong", "Basic {token}", "{token}", "Bearer {token}x", "Bearer \xe9"]
)
async def test_no_path_answers_without_the_token(http: HttpApi, wrong: str) -> None:
    header = wrong.format(token=http.credentials.token)
    answers = [await answer(http, "GET", path, Authorization=header) for path in PATHS]
    assert {(status, body["kind"], body["code"], body["reason"]) for status, body in answers} == {
        (401, "Status", 401, "Unauthorized")
    }


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"])
async def test_no_method_works_without_the_token(http: HttpApi, method: str) -> None:
    status, _ = await answer(http, method, "/api/v1/nodes", b"" if method == "HEAD" else NODE, Authorization="")
    assert status == 401


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
async def test_the_token_opens_every_path(http: HttpApi, scheme: str) -> None:
    token = f"{scheme} {http.credentials.token}"
    statuses = {(await answer(http, "GET", path, Authorization=token))[0] for path in ("/api", "/version", "/apis")}
    assert statuses == {200}


@pytest.mark.parametrize("host", ["evil.example.com", "127.0.0.1", "localhost:1", "127.0.0.1.evil.example.com:{port}"])
async def test_a_request_for_another_host_is_rejected(http: HttpApi, host: str) -> None:
    host = host.format(port=urlsplit(http.url).port)
    assert (await answer(http, "GET", "/api", Host=host))[0] == 403


async def test_the_server_is_also_localhost(http: HttpApi) -> None:
    assert (await answer(http, "GET", "/api", Host=f"localhost:{urlsplit(http.url).port}"))[0] == 200


@pytest.mark.parametrize("origin", ["https://evil.example.com", "null", "http://127.0.0.1"])
async def test_a_page_of_another_origin_is_rejected(http: HttpApi, origin: str) -> None:
    assert (await answer(http, "GET", "/api", Origin=origin))[0] == 403
    assert (await answer(http, "GET", "/api", Origin=http.url))[0] == 200


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
async def test_the_body_of_a_form_is_rejected(http: HttpApi, media_type: str) -> None:
    status, body = await answer(http, "POST", "/api/v1/nodes", NODE, Content_Type=media_type)
    assert (status, body["reason"]) == (415, "UnsupportedMediaType")
    assert (await answer(http, "POST", "/api/v1/nodes", NODE, Content_Type="application/json; charset=utf-8"))[0] == 201


async def test_it_listens_on_loopback_with_tls_only(http: HttpApi) -> None:
    address = urlsplit(http.url)
    assert (address.scheme, address.hostname) == ("https", "127.0.0.1")
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(b"GET /api HTTP/1.1\r\nHost: a\r\n\r\n")
    assert b"HTTP" not in await reader.read()
    writer.close()


async def test_a_server_with_another_certificate_is_not_sent_the_token(http: HttpApi, tmp_path: Path) -> None:
    http.write_kubeconfig(tmp_path / "kubeconfig")
    config = json.loads((tmp_path / "kubeconfig").read_text())
    other = HttpApi(ApiServer(), replace(Credentials.generate(), token=http.credentials.token))
    config["clusters"][0]["cluster"]["server"] = await other.start()
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    client = await KubeClient.from_kubeconfig(tmp_path / "kubeconfig")
    with pytest.raises(Exception, match="certificate verify failed"):
        await client.list(NAMESPACES)
    await client.close()
    await other.stop()


async def test_kubeconfig_is_private_and_has_address_and_token(http: HttpApi, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    http.write_kubeconfig(path)
    assert path.stat().st_mode & 0o777 == 0o600
    for found in (static_access(path), await access(path, None)):
        assert found
        assert (found.host, found.proxy) == (http.url, None)
        assert [*(await found.headers()).values()] == [f"Bearer {http.credentials.token}"]


def test_credentials_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "credentials.json"
    first = Credentials.kept_in(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert Credentials.kept_in(path) == first
    assert Credentials.generate().token != first.token


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"token": "t", "authority": "", "certificate": "", "key": ""}'])
def test_invalid_credentials_are_replaced(tmp_path: Path, content: str) -> None:
    path = tmp_path / "credentials.json"
    path.write_text(content)
    assert Credentials.kept_in(path) == Credentials.kept_in(path)


def test_a_certificate_of_another_key_is_invalid() -> None:
    with pytest.raises(ssl.SSLError):
        replace(Credentials.generate(), key=Credentials.generate().key).server_tls()


CONFIG: dict[str, Any] = {
    "clusters": [{"name": "c", "cluster": {"server": "https://a:1/", "insecure-skip-tls-verify": True}}],
    "users": [{"name": "u", "user": {"token": "t"}}],
    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    "current-context": "x",
}


def test_a_kubeconfig_with_a_token_is_read_without_a_file_of_its_certificate(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(CONFIG))
    found = static_access(path)
    assert found
    assert (found.host, found.tls().verify_mode) == ("https://a:1", ssl.CERT_NONE)


@pytest.mark.parametrize(
    "change",
    [
        {"current-context": "y"},
        {"users": [{"name": "u", "user": {"exec": {}}}]},
        {"users": [{"name": "u", "user": {"token": 1}}]},
        {"users": None},
        {"clusters": [{"name": "c", "cluster": {"server": "https://a", "proxy-url": "http://b"}}]},
        {"clusters": [{"name": "c", "cluster": {"server": "https://a", "certificate-authority-data": "bad"}}]},
        {"clusters": [{"name": "c", "cluster": {"server": "https://a"}}]},
    ],
)
def test_other_kubeconfigs_are_left_to_the_official_client(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps({**CONFIG, **change}))
    assert static_access(path) is None
