"""Connections to an API server with and without a proxy."""

from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer

from drahealth.fakes.cluster.access import Access
from drahealth.fakes.cluster.api import ApiError
from drahealth.fakes.cluster.kube_connection import KubeConnection, is_loopback


@pytest.fixture
async def proxy(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RawTestServer]:
    """Answers whatever it is asked for, and is the proxy that the environment names."""

    async def answer(request: web.BaseRequest) -> web.Response:
        return web.json_response({"asked": request.headers["Host"]})

    server = RawTestServer(answer)
    async with server:
        for name in ("http_proxy", "HTTP_PROXY"):
            monkeypatch.setenv(name, str(server.make_url("/")))
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        yield server


async def asked(host: str, proxy: str | None = None) -> object:
    access = Access.to(host)
    access.configuration.proxy = proxy
    connection = KubeConnection(access)
    try:
        return await connection.call("GET", "/version")
    finally:
        await connection.close()


async def test_a_server_elsewhere_is_reached_by_the_proxy(proxy: RawTestServer) -> None:
    assert await asked("http://kubernetes.example.com:6443") == {"asked": "kubernetes.example.com:6443"}


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_server_of_this_machine_is_reached_without_the_proxy(proxy: RawTestServer, host: str) -> None:
    with pytest.raises(ApiError, match=f"cannot reach the API server http://{host}:1"):
        await asked(f"http://{host}:1")


async def test_the_proxy_of_a_kubeconfig_is_for_this_machine_too(proxy: RawTestServer) -> None:
    assert await asked("http://127.0.0.1:1", str(proxy.make_url("/"))) == {"asked": "127.0.0.1:1"}


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("https://127.0.0.1:6443", True),
        ("https://127.3.2.1", True),
        ("https://[::1]:6443", True),
        ("https://LOCALHOST:6443", True),
        ("https://10.0.0.1:6443", False),
        ("https://localhost.example.com", False),
    ],
)
def test_this_machine_is_named_by_its_loopback_addresses(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
