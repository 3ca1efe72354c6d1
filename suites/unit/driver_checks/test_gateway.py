"""The gateway between a driver and its API server."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import aiohttp
import pytest

from drahealth.fakes.cluster.access import static_access
from drahealth.fakes.cluster.api import CLAIMS, NODES, ApiError
from drahealth.fakes.cluster.api_server.http import HttpApi
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.cluster.kube_client import KubeClient
from drahealth.suites.driver_checks.subject.gateway import Gateway

CLAIM = {"metadata": {"name": "gpu", "namespace": "default"}, "spec": {"devices": {}}}


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncGenerator[Gateway, None]:
    server = ApiServer()
    await server.create(NODES, {"metadata": {"name": "node-a"}})
    await server.create(CLAIMS, CLAIM)
    http = HttpApi(server)
    await http.start()
    http.write_kubeconfig(tmp_path / "upstream")
    upstream = static_access(tmp_path / "upstream")
    assert upstream
    gateway = Gateway(upstream)
    await gateway.start(tmp_path / "kubeconfig")
    yield gateway
    await gateway.stop()
    await http.stop()


@pytest.fixture
async def client(gateway: Gateway, tmp_path: Path) -> AsyncGenerator[KubeClient, None]:
    client = await KubeClient.from_kubeconfig(tmp_path / "kubeconfig")
    yield client
    await client.close()


async def test_driver_reads_objects_and_watches_them(client: KubeClient) -> None:
    watch = client.watch(NODES)
    names = [(await client.get(NODES, "node-a"))["metadata"]["name"], (await anext(watch)).object["metadata"]["name"]]
    await watch.aclose()
    assert names == ["node-a", "node-a"]


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}])
async def test_request_without_the_token_is_unauthorized(gateway: Gateway, headers: dict[str, str]) -> None:
    async with aiohttp.ClientSession() as session:
        got = await session.get(f"{gateway.url}/api/v1/nodes", headers=headers, ssl=False)
        assert got.status == 401


async def test_request_for_another_host_is_forbidden(gateway: Gateway) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{gateway.url}/api/v1/nodes", headers={"Host": "evil.example.com"}, ssl=False) as got,
    ):
        assert got.status == 403


async def test_kubeconfig_is_readable_by_its_user_only(gateway: Gateway, tmp_path: Path) -> None:
    assert (tmp_path / "kubeconfig").stat().st_mode & 0o777 == 0o600


async def test_server_that_is_down_comes_back_at_the_same_address(gateway: Gateway, client: KubeClient) -> None:
    url = gateway.url
    await gateway.down()
    with pytest.raises(ApiError):
        await client.get(NODES, "node-a")
    await gateway.up()
    assert (await client.get(NODES, "node-a"), gateway.url)[1] == url


async def test_held_read_of_a_claim_waits_for_its_release(gateway: Gateway, client: KubeClient) -> None:
    async with gateway.hold("default", "gpu") as asked:
        reading = asyncio.create_task(client.get(CLAIMS, "gpu", "default"))
        await asked.wait()
        await client.get(NODES, "node-a")  # another read is not held
        assert not reading.done()
    assert (await reading)["metadata"]["name"] == "gpu"
