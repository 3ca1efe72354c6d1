"""Kubelets restarted and gates set by commands in nodes' containers."""

import asyncio
import json
import re
import signal
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.targets.audit import POLICY
from drahealth.suites.targets.engine import Engine
from drahealth.suites.targets.kind import node_control
from drahealth.suites.targets.kind.node_control import KindNodes
from drahealth.suites.unit.endings import PATIENCE
from drahealth.suites.unit.targets.kind.kind_node import CONFIG, MANIFEST, NODE, KindNode, entry


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


async def test_the_api_server_gets_an_audit_log_once_and_loses_it_at_the_end(node: KindNode, nodes: KindNodes) -> None:
    await nodes.audit_status_writes()
    await nodes.set_gates({"GateA": False})
    await nodes.audit_status_writes()
    assert re.findall(r"--(?:audit-log-path|feature-gates)=[^\s,\]]+", node.manifest.read_text()) == [
        "--audit-log-path=-",
        "--feature-gates=GateA=false",
    ]
    assert (json.loads(node.policy.read_text()), node.restarts()) == (POLICY, 2)
    await nodes.restore()
    assert (node.manifest.read_text(), node.policy.exists()) == (MANIFEST, False)


async def test_the_writes_of_a_namespace_are_read_from_the_logs_of_the_api_server(
    node: KindNode, nodes: KindNodes
) -> None:
    assert await nodes.status_writes("n") == []
    whole = json.dumps(entry(422, "Too long"), separators=(",", ":"))
    other = json.dumps(entry(namespace="other"), separators=(",", ":"))
    node.log("0.log", "stderr F " + whole, "stdout F " + other, "stdout P " + whole[:30], "stdout F " + whole[30:])
    last = json.dumps(entry(), separators=(",", ":"))
    node.log("1.log", "stdout F " + last, "stdout F " + last[:-1])  # the API server still writes the last line
    rejected, accepted = await nodes.status_writes("n")
    assert (rejected.error, accepted.error, accepted.changed) == ("Too long", "", True)


async def test_a_stopped_api_server_is_killed_and_started_with_its_manifest(node: KindNode, nodes: KindNodes) -> None:
    process = await node.run("kube-apiserver")
    await nodes.stop_api_server()
    assert (await asyncio.wait_for(process.wait(), PATIENCE), node.manifest.exists()) == (-signal.SIGKILL, False)
    await nodes.start_api_server()
    await nodes.start_api_server()
    assert (node.manifest.read_text(), node.leases, node.restarts()) == (MANIFEST, 2, 0)


async def test_restore_starts_a_stopped_api_server(node: KindNode, nodes: KindNodes) -> None:
    await nodes.set_gates({"GateA": False})
    await nodes.stop_api_server()
    other_process = KindNodes(Engine("docker"), NODE, [NODE], node.client)
    await other_process.restore()
    assert node.manifest.read_text() == MANIFEST
    assert [path.name for path in node.manifest.parent.parent.iterdir()] == ["manifests"]


async def test_restore_leaves_the_original_files(node: KindNode, nodes: KindNodes) -> None:
    node.manifest.chmod(0o600)
    await nodes.set_gates({"GateA": False})
    await nodes.set_gates({"GateB": False})
    other_process = KindNodes(Engine("docker"), NODE, [NODE], node.client)
    await other_process.restore()
    assert (node.manifest.read_text(), node.config.read_text()) == (MANIFEST, CONFIG)
    assert stat.S_IMODE(node.manifest.stat().st_mode) == 0o600
    assert [path.name for path in node.manifest.parent.parent.iterdir()] == ["manifests"]


async def test_unchanged_gates_restart_nothing(node: KindNode, nodes: KindNodes) -> None:
    await nodes.set_gates({"GateA": True, "GateB": True})
    await nodes.restore()
    assert node.restarts() == 0


async def test_an_unknown_gate_is_rejected_before_any_change(node: KindNode, nodes: KindNodes) -> None:
    with pytest.raises(ConfigurationError, match="Nonsense"):
        await nodes.set_gates({"GateA": False, "Nonsense": True})
    assert node.manifest.read_text() == MANIFEST


@pytest.mark.parametrize("name", ["kube-apiserver", "kube-scheduler", "kube-controller-manager"])
async def test_components_that_use_the_old_gates_are_killed(node: KindNode, nodes: KindNodes, name: str) -> None:
    process = await node.run(name)
    try:
        await nodes.set_gates({"GateA": False})
        assert await asyncio.wait_for(process.wait(), PATIENCE) == -signal.SIGKILL
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_the_lease_of_a_killed_scheduler_is_deleted(node: KindNode, nodes: KindNodes) -> None:
    await nodes.set_gates({"GateA": False})
    await nodes.set_gates({"GateA": False})
    assert node.leases == 2


async def test_a_kubelet_that_does_not_start_is_an_error_with_its_log(
    node: KindNode, nodes: KindNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_control, "LIMIT", 0.3)
    node.back = False
    with pytest.raises(HarnessError, match=f"waiting for the kubelet of {NODE} to be back") as failure:
        await nodes.restart_kubelet(NODE)
    assert "the kubelet's last line" in failure.value.__notes__[0]


async def test_only_a_stopped_kubelet_is_started(node: KindNode, nodes: KindNodes) -> None:
    await nodes.start_kubelet(NODE)
    await nodes.stop_kubelet(NODE)
    assert ((node.root / "stopped").exists(), node.restarts()) == (True, 0)
    await nodes.start_kubelet(NODE)
    await nodes.start_kubelet(NODE)
    assert node.restarts() == 1


async def test_restore_starts_a_stopped_kubelet(node: KindNode, nodes: KindNodes) -> None:
    await nodes.stop_kubelet(NODE)
    await nodes.restore()
    await nodes.restore()
    assert node.restarts() == 1


async def test_files_are_written_atomically_with_their_folders(node: KindNode, nodes: KindNodes) -> None:
    await nodes.write(NODE, "/etc/kubernetes/own/file", "text\n")
    assert await nodes.read(NODE, "/etc/kubernetes/own/file") == "text\n"
    assert len(list((node.root / NODE / "etc/kubernetes/own").iterdir())) == 1


async def test_a_cluster_that_does_not_answer_is_an_error(node: KindNode, nodes: KindNodes) -> None:
    await node.server.close()
    with pytest.raises(HarnessError, match="gates"):
        await nodes.set_gates({"GateA": False})
