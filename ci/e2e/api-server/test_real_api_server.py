"""The reference with a real API server (`ci/step api-server` runs this)."""

import asyncio
import sys
import tempfile
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import psutil
import pytest

from drahealth.fakes.cluster.api import CLAIMS, NAMESPACES, Api, ApiError
from drahealth.fakes.cluster.kube_client import KubeClient
from drahealth.fakes.cluster.kube_connection import KubeConnection, access
from drahealth.manager.profile import Gates
from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.api_servers import api_server, port_in, real_api_servers
from drahealth.suites.targets.kubelet.processes import Reservation
from drahealth.suites.unit.driver_checks.test_objects import check_objects_of_any_kind
from drahealth.suites.unit.endings import PATIENCE

PROGRAMS = {"etcd", "kube-apiserver", "kube-controller-manager"}

LONER = """
import asyncio, sys
from pathlib import Path
from drahealth.suites.targets.api_servers import api_server

async def main():
    async with api_server("real", Path(sys.argv[1])):
        print("ready", flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.fixture
def root() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="dra-") as folder:
        yield Path(folder)


def processes(root: Path) -> dict[str, psutil.Process]:
    """The processes that were started with this directory, by name."""
    found = psutil.process_iter(["name", "cmdline"])
    mine = [process for process in found if str(root) in " ".join(process.info["cmdline"] or ())]
    return {process.info["name"]: process for process in mine if process.info["name"] in PROGRAMS}


async def made(client: Api, name: str) -> bool:
    await client.create(NAMESPACES, {"metadata": {"name": name}})
    return await there(client, name)


async def there(client: Api, name: str) -> bool:
    return name in [namespace["metadata"]["name"] for namespace in await client.list(NAMESPACES)]


async def test_objects_port_and_credentials_outlive_the_server(root: Path) -> None:
    async with api_server("real", root) as server:
        assert await made(server.api, "kept")
        before = (root / "kubeconfig").read_bytes()
        assert processes(root).keys() == PROGRAMS
    assert not processes(root)
    reserved = Reservation(port_in(root / "kubeconfig"))  # no other process gets it meanwhile
    async with api_server("real", root) as server:
        assert await there(server.api, "kept")
        assert (root / "kubeconfig").read_bytes() == before
    reserved.release()


async def test_a_server_that_is_down_refuses_calls_until_it_is_up(root: Path) -> None:
    server = real_api_servers()(root)
    await server.start()
    await server.down()
    with pytest.raises(ApiError, match="cannot reach"):
        await server.api.list(NAMESPACES)
    await server.up()
    await server.restart(Gates(False, False))
    assert await there(server.api, "default")
    await server.stop()


async def test_requests_without_the_token_are_rejected(root: Path) -> None:
    async with api_server("real", root):
        ours = await access(root / "kubeconfig", None)
        ours.configuration.api_key.clear()
        ours.configuration.refresh_api_key_hook = None
        connection = KubeConnection(ours)
        for path in ("/readyz", "/version", "/api/v1/pods"):
            with pytest.raises(ApiError) as refused:
                await connection.text(path)
            assert refused.value.status == 401
        await connection.close()


async def test_a_killed_process_is_reported_with_its_log(root: Path) -> None:
    server = real_api_servers()(root)
    await server.start()
    failure = asyncio.create_task(server.wait())
    processes(root)["etcd"].kill()
    with pytest.raises(HarnessError, match="etcd has ended"):
        await asyncio.wait_for(failure, PATIENCE)
    await server.stop()


async def test_after_a_kill_nothing_runs_and_the_next_server_continues(root: Path) -> None:
    pipe = asyncio.subprocess.PIPE
    loner = await asyncio.create_subprocess_exec(sys.executable, "-c", LONER, str(root), stdout=pipe)
    assert loner.stdout is not None
    assert await loner.stdout.readline() == b"ready\n"
    client = await KubeClient.from_kubeconfig(root / "kubeconfig")
    assert await made(client, "kept")
    await client.close()
    loner.kill()
    await loner.wait()
    async with api_server("real", root) as server:
        assert await there(server.api, "kept")
    assert not processes(root)


async def test_a_namespace_is_deleted_with_its_objects(root: Path) -> None:
    async with api_server("real", root) as server:
        await made(server.api, "team")
        await server.api.create(CLAIMS, {"metadata": {"name": "gpu", "namespace": "team"}, "spec": {"devices": {}}})
        since = (await server.api.snapshot(NAMESPACES)).revision
        await server.api.delete(NAMESPACES, "team")
        async with asyncio.timeout(PATIENCE), aclosing(server.api.watch(NAMESPACES, since=since)) as events:
            async for event in events:
                if event.type == "DELETED":
                    break
        assert await server.api.list(CLAIMS) == []


async def test_driver_profile_can_have_objects_of_any_kind(root: Path) -> None:
    async with api_server("real", root) as server:
        await check_objects_of_any_kind(server.api)
