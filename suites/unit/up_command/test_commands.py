"""`drahealth up --reference` and the commands for its node, each in a process of its own."""

import asyncio
import json
import os
import select
import signal
import socket
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from drahealth.fakes.cluster.api import PODS
from drahealth.fakes.cluster.kube_client import KubeClient
from drahealth.suites.unit.command_process import COMMAND, PATIENCE, Done, run
from drahealth.suites.unit.up_command.page import PAGE, manifest_of, printed_by, python_of

ERROR = "drahealth: "
KILLED_AT_ONCE = (
    """
import os, signal
from drahealth.suites.up_command.supervisor import Supervisor
Supervisor.run = lambda self: os.kill(os.getpid(), signal.SIGKILL)
"""
    + COMMAND
)
POD = "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: main, image: x}}]}}\n"


def up(*options: str) -> Done:
    done = run(COMMAND, "up", "--reference", *options)
    assert done.returncode == 0, done.stderr
    return done


def process_of(name: str = "drahealth") -> int:
    (found,) = json.loads(run(COMMAND, "status", "--name", name, "--json").stdout)
    return int(found["pid"] or 0)


def kill(pid: int) -> None:
    """Kills the process, and waits until it has ended."""
    ended = os.pidfd_open(pid)
    try:
        os.kill(pid, signal.SIGKILL)
        assert select.select([ended], [], [], PATIENCE)[0]
    finally:
        os.close(ended)


def test_up_prints_the_commands_to_try_next_and_down_leaves_nothing(nodes: Path) -> None:
    lines = up().stdout.splitlines()
    assert (lines[1], lines[3:]) == (
        f"export KUBECONFIG={nodes}/drahealth/kubeconfig",
        ["drahealth ctl inject xid/48 gpu-0", "drahealth down"],
    )
    assert (run(COMMAND, "down").returncode, list(nodes.iterdir())) == (0, [])


@pytest.mark.parametrize("words", [(), ("--name", "drahealth")])
def test_ctl_finds_the_drivers_of_a_node(nodes: Path, words: tuple[str, ...]) -> None:
    up()
    done = run(COMMAND, "ctl", *words, "status", "--json")
    assert "gpu.example.com" in done.stdout


def test_the_typed_client_of_the_page_reads_the_health(nodes: Path, tmp_path: Path) -> None:
    job, kubeconfig = tmp_path / "job.yaml", nodes / "drahealth" / "kubeconfig"
    job.write_text(manifest_of(PAGE, job.name))
    up()
    assert run(COMMAND, "load", str(job)).returncode == 0
    asyncio.run(asyncio.wait_for(until_a_pod_shows("Healthy", kubeconfig), PATIENCE))
    assert run(COMMAND, "ctl", "inject", "xid/48", "gpu-0").returncode == 0
    asyncio.run(asyncio.wait_for(until_a_pod_shows("Unhealthy", kubeconfig), PATIENCE))
    (line,) = printed_by(python_of(PAGE), kubeconfig)
    assert line.startswith("job claim:gpu/gpu gpu.example.com/drahealth/gpu-0 Unhealthy XID 48")


async def until_a_pod_shows(health: str, kubeconfig: Path) -> None:
    client = await KubeClient.from_kubeconfig(kubeconfig)
    try:
        while True:  # a server may end a watch
            async for event in client.watch(PODS):
                if f"'health': '{health}'" in str(event.object.get("status")):
                    return
    finally:
        await client.close()


def test_up_of_a_running_node_prints_the_same_commands(nodes: Path, tmp_path: Path) -> None:
    file = tmp_path / "gpus.yaml"
    file.write_text("format: inventory/v1\ndevices: [{name: board, count: 1}]\n")
    first, pid = up("-f", str(file)).stdout.splitlines(), process_of()
    for words in ([], ["--reference"], ["-f", str(file)], ["--gates", ""]):
        done = run(COMMAND, "up", *words)
        assert (done.returncode, done.stdout.splitlines()[1:]) == (0, first[1:])
        assert done.stdout.startswith("node drahealth is already Ready: the reference")
        assert ("a new node runs Kubernetes" in done.stderr) == ("--reference" not in words)
    assert process_of() == pid


def test_up_of_a_running_node_rejects_other_options(nodes: Path, tmp_path: Path) -> None:
    other, story = tmp_path / "gpus.yaml", tmp_path / "a.timeline.yaml"
    other.write_text("format: inventory/v1\ndevices: [{name: board, count: 1}]\n")
    story.write_text("format: fault-timeline/v1\nname: a\ntimeline: [{mark: b}]\n")
    up()
    errors = [
        run(COMMAND, "up", *words)
        for words in (
            ["--kubernetes", "1.37"],
            ["--gates", "DynamicResourceAllocation=false"],
            ["-f", str(other)],
            ["--timeline", str(story)],
            ["--fresh"],
            ["--foreground"],
            ["--nodes", "2"],
        )
    ]
    assert {(one.returncode, one.stdout, one.stderr.count("\n")) for one in errors} == {(2, "", 1)}
    assert all("node drahealth is up" in one.stderr and "`drahealth down --name" in one.stderr for one in errors)


@pytest.mark.parametrize("option", ["-f", "--timeline"])
def test_unreadable_file_is_an_error_before_the_start(nodes: Path, option: str) -> None:
    done = run(COMMAND, "up", "--reference", option, "/no/such.yaml")
    assert (done.returncode, done.stderr) == (2, f"{ERROR}/no/such.yaml cannot be read: No such file or directory\n")
    assert list(nodes.iterdir()) == []


def test_nodes_with_different_names_run_side_by_side(nodes: Path) -> None:
    up("--name", "a")
    up("--name", "b")
    assert len({process_of("a"), process_of("b")}) == 2


def test_a_node_of_its_own_does_not_join_another(nodes: Path) -> None:
    up("--name", "a-2")
    done = run(COMMAND, "up", "--name", "a", "--nodes", "2")
    assert (done.returncode, "node a-2 exists" in done.stderr) == (2, True)
    assert [path.name for path in nodes.iterdir()] == ["a-2"]


def test_a_killed_node_starts_again_with_its_inventory(nodes: Path, tmp_path: Path) -> None:
    file = tmp_path / "gpus.yaml"
    file.write_text("format: inventory/v1\ndevices: [{name: board, count: 1}]\n")
    up("-f", str(file))
    kill(process_of())
    again = run(COMMAND, "up")
    assert again.stdout.splitlines()[3] == "drahealth ctl inject xid/48 board"
    assert "note: node drahealth runs the reference" in again.stderr


def test_down_removes_a_killed_node(nodes: Path) -> None:
    up()
    kill(process_of())
    assert (run(COMMAND, "down").returncode, list(nodes.iterdir())) == (0, [])


def test_a_restarted_machine_starts_the_node_again(nodes: Path) -> None:
    up()
    kill(process_of())
    pretend(nodes, pid=os.getpid(), boot="an earlier boot")
    assert (process_of(), up().returncode) == (0, 0)


def test_down_does_not_signal_another_process_with_the_id(nodes: Path) -> None:
    up()
    kill(process_of())
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as other:  # it ends when its input is closed
        pretend(nodes, pid=other.pid)
        assert (run(COMMAND, "down").returncode, list(nodes.iterdir()), other.poll()) == (0, [], None)


def pretend(nodes: Path, **process: object) -> None:
    """Changes the process in the state file of the killed node."""
    path = nodes / "drahealth" / "state.json"
    state = json.loads(path.read_text())
    path.write_text(json.dumps(state | {"process": state["process"] | process}))


def test_up_rejects_and_down_removes_data_of_a_newer_release(nodes: Path) -> None:
    up()
    run(COMMAND, "down", "--keep")
    path = nodes / "drahealth" / "state.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 99, "drahealth": "9.9"}))
    done = run(COMMAND, "up", "--reference")
    assert (done.returncode, "newer drahealth (9.9)" in done.stderr, path.exists()) == (2, True, True)
    assert (run(COMMAND, "down").returncode, list(nodes.iterdir())) == (0, [])


def test_restarted_node_uses_another_port_if_its_port_is_taken(nodes: Path) -> None:
    up()
    before = server_of()
    run(COMMAND, "down", "--keep")
    with socket.create_server(("127.0.0.1", urlsplit(before).port or 0)):
        up()
        assert server_of() != before
        assert run(COMMAND, "load", os.devnull).returncode == 0


def server_of() -> str:
    (found,) = json.loads(run(COMMAND, "status", "--json").stdout)
    return str(found["server"])


def test_a_supervisor_that_is_killed_at_once_leaves_nothing(nodes: Path) -> None:
    done = run(KILLED_AT_ONCE, "up", "--reference")
    assert (done.returncode, "supervisor" in done.stderr, list(nodes.iterdir())) == (3, True, [])


def test_kept_data_need_fresh_for_another_kind_of_node(nodes: Path) -> None:
    up()
    assert run(COMMAND, "down", "--keep").returncode == 0
    done = run(COMMAND, "up", "--kubernetes", "1.37.1")
    assert (done.returncode, "--fresh" in done.stderr) == (2, True)


def test_fresh_removes_the_data(nodes: Path, tmp_path: Path) -> None:
    up("-f", str(write(tmp_path / "board.yaml", "format: inventory/v1\ndevices: [{name: board}]\n")))
    run(COMMAND, "down", "--keep")
    assert up("--fresh").stdout.splitlines()[3] == "drahealth ctl inject xid/48 gpu-0"


def test_kubectl_has_help_without_a_node(nodes: Path) -> None:
    assert "drahealth kubectl [--name NAME] ARGUMENTS" in run(COMMAND, "kubectl", "--help").stdout


@pytest.mark.parametrize(
    ("words", "code", "hint"),
    [
        (["down"], 2, "there is no node drahealth"),
        (["down", "--all", "--name", "other"], 2, "exclude each other"),
        (["status", "--name", "other"], 2, "drahealth up --name other"),
        (["logs", "kubelet"], 2, "there is no node drahealth"),
        (["load", "/nowhere.yaml"], 2, "there is no node drahealth"),
        (["kubectl", "get", "pods"], 2, "there is no node drahealth"),
        (["up", "--name", "A"], 2, "lower-case"),
        (["up", "--gates", "x"], 2, "NAME=true"),
        (["up", "--kubernetes", "1.x"], 2, "MAJOR.MINOR.PATCH"),
        (["up", "--reference", "--kubernetes", "1.37.1"], 2, "exclude each other"),
        (["up", "--reference", "-f", "/nowhere.yaml"], 2, "/nowhere.yaml"),
        (["up", "--reference", "--timeline", "/nowhere.yaml"], 2, "/nowhere.yaml"),
        (["up", "--reference", "--gates", "Other=true"], 2, "unknown feature gate"),
        (["up", "--nodes", "0"], 2, "--nodes must be between 1 and 20"),
        (["up", "--reference", "--nodes", "2"], 2, "exclude each other"),
    ],
)
def test_invalid_input_prints_one_error_line_and_leaves_no_files(
    nodes: Path, words: list[str], code: int, hint: str
) -> None:
    done = run(COMMAND, *words)
    (line,) = (line for line in done.stderr.splitlines() if line.startswith(ERROR))
    assert (done.returncode, hint in line, nodes.exists() and list(nodes.iterdir())) == (
        code,
        True,
        nodes.exists() and [],
    )


def test_the_log_of_the_driver_has_its_events(nodes: Path) -> None:
    up()
    events = [json.loads(line)["event"] for line in run(COMMAND, "logs", "driver").stdout.splitlines()]
    assert "serving" in events


def test_failed_up_in_foreground_leaves_no_files(nodes: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "bad.yaml", "format: inventory/v1\n")
    done = run(COMMAND, "up", "--reference", "--foreground", "-f", str(file))
    assert (done.returncode, list(nodes.iterdir())) == (2, [])


def test_load_rejects_unknown_fields_as_kubectl_does(nodes: Path, tmp_path: Path) -> None:
    up()
    manifest = write(tmp_path / "pod.yaml", POD.format(name="a").replace("image: x", "image: x, colour: red"))
    done = run(COMMAND, "load", str(manifest))
    assert (done.returncode, done.stdout, done.stderr.count("colour")) == (2, "", 1)


def test_load_applies_the_same_manifest_twice(nodes: Path, tmp_path: Path) -> None:
    up()
    manifest = write(tmp_path / "pods.yaml", POD.format(name="a") + "---\n" + POD.format(name="b"))
    (first, again) = (run(COMMAND, "load", str(manifest)).stdout for _ in range(2))
    assert first == again == "Pod a applied\nPod b applied\n"


def test_manifests_that_cannot_be_applied_are_rejected(nodes: Path, tmp_path: Path) -> None:
    up()
    texts = {
        "a: b": "line 1: must be a Kubernetes object",
        "\n\n" + POD.format(name="a").replace("v1", "v9"): "line 3: the API server has no kind Pod in v9",
        POD.format(name="A_"): "metadata.name",
        "{": "invalid YAML",
    }
    done = [run(COMMAND, "load", str(write(tmp_path / "pod.yaml", text))) for text in texts]
    assert [(one.returncode, hint in one.stderr) for one, hint in zip(done, texts.values(), strict=True)] == [
        (2, True)
    ] * 4


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_down_of_an_unknown_node_lists_the_nodes(nodes: Path) -> None:
    empty = run(COMMAND, "down", "--name", "b").stderr
    up("--name", "a")
    other = run(COMMAND, "down", "--name", "b")
    assert "there is no node b (nodes: a)" in run(COMMAND, "ctl", "status", "--name", "b").stderr
    assert empty == f"{ERROR}there is no node b (nodes: none); nothing was removed\n"
    assert (other.returncode, other.stderr) == (
        2,
        f"{ERROR}there is no node b (nodes: a); pass --name with one of these nodes\n",
    )
