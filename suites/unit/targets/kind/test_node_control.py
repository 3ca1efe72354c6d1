"""Kubelets restarted and gates set by commands in nodes' containers."""

import asyncio
import signal
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.targets.engine.engine import Engine
from drahealth.suites.targets.kind.cluster import node_control
from drahealth.suites.targets.kind.cluster.node_control import KindNodes
from drahealth.suites.unit.endings import PATIENCE
from drahealth.suites.unit.targets.kind.kind_node import CONFIG, MANIFEST, NODE, KindNode


@pytest.fixture
async def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[KindNode]:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    node = KindNode(tmp_path)
    await node.start()
    yield node
    await node.stop()


@pytest.fixture
def nodes(node: KindNode) -> KindNodes:
    return KindNodes(Engine("docker"), NODE, [NODE], node.client)


async def test_gates_are_set_on_the_api_server_and_the_kubelet_and_back_again(node: KindNode, nodes: KindNodes) -> None:
    await nodes.set_gates({"GateA": False})
    assert "--feature-gates=GateA=false" in node.manifest.read_text()
    assert "GateA: false" in node.config.read_text()
    await nodes.set_gates({"GateA": True, "GateB": False})
    assert "--feature-gates=GateA=true,GateB=false" in node.manifest.read_text()
    assert node.restarts() == 2


async def test_gates_of_the_two_sides_may_differ(node: KindNode, nodes: KindNodes) -> None:
    await nodes.set_gates({"GateA": False}, {"GateA": True})
    assert "--feature-gates=GateA=false" in node.manifest.read_text()
    assert "GateA: true" in node.config.read_text()


async def test_an_api_server_that_is_taken_away_is_killed_and_comes_back_with_its_manifest(
    node: KindNode, nodes: KindNodes
) -> None:
    process = await node.run("kube-apiserver")
    await nodes.stop_api_server()
    assert (await asyncio.wait_for(process.wait(), PATIENCE), node.manifest.exists()) == (-signal.SIGKILL, False)
    await nodes.start_api_server()
    await nodes.start_api_server()
    assert (node.manifest.read_text(), node.leases, node.restarts()) == (MANIFEST, 2, 0)


async def test_an_api_server_that_was_left_away_is_given_back_at_the_end(node: KindNode, nodes: KindNodes) -> None:
    await nodes.set_gates({"GateA": False})
    await nodes.stop_api_server()
    other_process = KindNodes(Engine("docker"), NODE, [NODE], node.client)
    await other_process.restore()
    assert node.manifest.read_text() == MANIFEST
    assert [path.name for path in node.manifest.parent.parent.iterdir()] == ["manifests"]


async def test_the_way_back_restores_every_byte_and_leaves_nothing(node: KindNode, nodes: KindNodes) -> None:
    node.manifest.chmod(0o600)
    await nodes.set_gates({"GateA": False})
    await nodes.set_gates({"GateB": False})
    other_process = KindNodes(Engine("docker"), NODE, [NODE], node.client)
    await other_process.restore()
    assert (node.manifest.read_text(), node.config.read_text()) == (MANIFEST, CONFIG)
    assert stat.S_IMODE(node.manifest.stat().st_mode) == 0o600
    assert [path.name for path in node.manifest.parent.parent.iterdir()] == ["manifests"]


async def test_nothing_is_restarted_where_nothing_is_to_change(node: KindNode, nodes: KindNodes) -> None:
    await nodes.set_gates({"GateA": True, "GateB": True})
    await nodes.restore()
    assert node.restarts() == 0


async def test_a_gate_that_the_api_server_does_not_know_is_refused_before_anything_is_done(
    node: KindNode, nodes: KindNodes
) -> None:
    with pytest.raises(ConfigurationError, match=r"unknown feature gate .*Nonsense"):
        await nodes.set_gates({"GateA": False, "Nonsense": True})
    assert node.manifest.read_text() == MANIFEST


@pytest.mark.parametrize("name", ["kube-apiserver", "kube-scheduler", "kube-controller-manager"])
async def test_what_read_the_old_gates_or_watched_who_did_is_killed(
    node: KindNode, nodes: KindNodes, name: str
) -> None:
    process = await node.run(name)
    try:
        await nodes.set_gates({"GateA": False})
        assert await asyncio.wait_for(process.wait(), PATIENCE) == -signal.SIGKILL
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_the_lease_of_a_scheduler_that_was_killed_goes_with_it(node: KindNode, nodes: KindNodes) -> None:
    await nodes.set_gates({"GateA": False})
    await nodes.set_gates({"GateA": False})
    assert node.leases == 2


async def test_a_kubelet_that_does_not_come_back_ends_the_waiting_with_its_log(
    node: KindNode, nodes: KindNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_control, "LIMIT", 0.3)
    node.back = False
    with pytest.raises(HarnessError, match=f"waiting for the kubelet of {NODE} to be back") as failure:
        await nodes.restart_kubelet(NODE)
    assert "the kubelet's last line" in failure.value.__notes__[0]


async def test_a_kubelet_that_was_stopped_is_started_once_and_one_that_runs_is_left_alone(
    node: KindNode, nodes: KindNodes
) -> None:
    await nodes.start_kubelet(NODE)
    await nodes.stop_kubelet(NODE)
    assert ((node.root / "stopped").exists(), node.restarts()) == (True, 0)
    await nodes.start_kubelet(NODE)
    await nodes.start_kubelet(NODE)
    assert node.restarts() == 1


async def test_what_was_changed_is_undone_with_a_kubelet_that_was_left_stopped(
    node: KindNode, nodes: KindNodes
) -> None:
    await nodes.stop_kubelet(NODE)
    await nodes.restore()
    await nodes.restore()
    assert node.restarts() == 1


async def test_files_are_written_whole_with_the_folders_above_them(node: KindNode, nodes: KindNodes) -> None:
    await nodes.write(NODE, "/etc/kubernetes/own/file", "text\n")
    assert await nodes.read(NODE, "/etc/kubernetes/own/file") == "text\n"
    assert len(list((node.root / NODE / "etc/kubernetes/own").iterdir())) == 1


async def test_a_cluster_that_does_not_answer_is_a_sentence(node: KindNode, nodes: KindNodes) -> None:
    await node.server.close()
    with pytest.raises(HarnessError, match=r"The gates cannot be set: .*cannot reach the API server"):
        await nodes.set_gates({"GateA": False})
