"""API servers of both kinds, without Kubernetes programs (`ci/step api-server` tests the others)."""

import fcntl
import stat
from pathlib import Path

import pytest

from drahealth.fakes.cluster.api import NAMESPACES, NODES
from drahealth.fakes.cluster.kube_client import KubeClient
from drahealth.suites.errors import HarnessError
from drahealth.suites.targets import api_servers
from drahealth.suites.targets.api_servers import RealApiServer, api_server
from drahealth.suites.targets.kubelet.binaries import Binaries
from drahealth.suites.targets.kubelet.layout import Layout, keep_admin
from drahealth.suites.targets.option import API_SERVER


def programs(folder: Path) -> Binaries:
    """Programs that do not exist, in a folder that does."""
    return Binaries("1.37.1", *[folder / "program"] * 5)


async def test_the_api_server_in_memory_is_served_to_clients_with_its_kubeconfig(tmp_path: Path) -> None:
    async with api_server("memory", tmp_path) as server:
        await server.api.create(NODES, {"metadata": {"name": "node-a"}})
        client = await KubeClient.from_kubeconfig(await server.kubeconfig())
        nodes = await client.list(NODES)
        await client.close()
    assert [node["metadata"]["name"] for node in nodes] == ["node-a"]
    assert stat.S_IMODE((tmp_path / "kubeconfig").stat().st_mode) == 0o600


async def test_a_client_waits_until_the_api_server_is_ready(tmp_path: Path) -> None:
    async with api_server("memory", tmp_path) as server:
        client = await KubeClient.from_kubeconfig(await server.kubeconfig())
        await client.wait_ready()
        names = [namespace["metadata"]["name"] for namespace in await client.list(NAMESPACES)]
        await client.close()
    assert names == ["default", "kube-system"]


async def test_a_program_that_does_not_exist_is_an_error_that_names_it(tmp_path: Path) -> None:
    server = RealApiServer(programs(tmp_path), tmp_path)
    with pytest.raises(HarnessError, match=f"cannot start etcd: {tmp_path}/program"):
        await server.start()
    await server.stop()


async def test_a_directory_in_use_by_another_api_server_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_servers, "_LOCK_LIMIT", 0)
    folder = tmp_path / "control-plane"
    folder.mkdir()
    with (folder / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(HarnessError, match="another API server uses"):
            await RealApiServer(programs(tmp_path), tmp_path).start()


def test_the_token_of_the_administrator_outlives_the_server(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.make(kubelet=False)
    token, key = keep_admin(layout), layout.service_account_key.read_bytes()
    assert (keep_admin(layout), layout.service_account_key.read_bytes()) == (token, key)
    assert stat.S_IMODE(layout.tokens.stat().st_mode) == 0o600


def test_an_unknown_kind_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="must be one of memory, real"):
        API_SERVER.read("etcd")
