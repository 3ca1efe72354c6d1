"""`drahealth up` on a real kubelet, only by commands, each in its own process."""

import asyncio
import http.client
import json
import os
import re
import select
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from drahealth.suites import RunningNode
from drahealth.suites.unit.other_user import as_root, other_user
from drahealth.suites.unit.up_command.node_commands import PATIENCE, RELEASE, drahealth, folder_of_nodes
from drahealth.suites.unit.up_command.page import PAGE, printed_by, python_of

JOB = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: gpu}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: job}
spec:
  containers:
  - {name: main, image: training, resources: {claims: [{name: gpu}]}}
  resourceClaims: [{name: gpu, resourceClaimName: gpu}]
"""
FAILING = """
apiVersion: v1
kind: Pod
metadata:
  name: failing
  annotations: {runtime.example.com/script: "echo starts; sleep 0.1; echo out of memory; exit 3"}
spec: {restartPolicy: Never, containers: [{name: main, image: training}]}
"""
EXIT_CODE = "{.status.containerStatuses[0].state.terminated.exitCode}"
HEALTH = "{.status.containerStatuses[0].allocatedResourcesStatus[0].resources[0].health}"


def status() -> dict[str, Any]:
    (found,) = json.loads(drahealth("status", "--json"))
    return dict(found)


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A Ready node in a folder of its own; nothing of it is left at the end."""
    with folder_of_nodes("up") as folder:
        try:
            inventory = tmp_path_factory.mktemp("inventory") / "gpus.yaml"
            inventory.write_text("format: inventory/v1\ndevices: [{name: gpu, count: 4}]\n")
            drahealth("up", *RELEASE, "-f", str(inventory))
            yield folder
        finally:
            drahealth("down")
            left = [words for _, words in commands() if f"{folder}/" in " ".join(words)]
            assert (list(folder.iterdir()), left) == ([], [])
            folder.rmdir()


def test_an_unhealthy_gpu_of_a_pod_is_seen_with_kubectl(state: Path) -> None:
    drahealth("kubectl", "apply", "-f", "-", text=JOB)
    drahealth("kubectl", "wait", "--for=condition=Ready", "pod/job", "--timeout=240s")
    drahealth("ctl", "--name", "drahealth", "set", "gpu-*", "--health", "unhealthy")
    drahealth("kubectl", "wait", f"--for=jsonpath={HEALTH}=Unhealthy", "pod/job", "--timeout=240s")
    # Fact C-06. If kubectl prints the health one day, change the fact, and TEXT-09 in suites/judging/statements.toml.
    described = drahealth("kubectl", "describe", "pod/job")
    assert ("Restart Count" in described, "Unhealthy" in described) == (True, False)


def test_the_typed_client_of_the_page_reads_the_health(state: Path) -> None:
    (line,) = printed_by(python_of(PAGE), state / "drahealth" / "kubeconfig")
    assert re.fullmatch(r"job claim:gpu gpu.example.com/gpu=gpu-\d Unhealthy None", line)


def test_kubelet_rejects_requests_without_a_certificate(state: Path) -> None:
    port = json.loads((state / "drahealth" / "kubelet.json").read_text())["port"]
    with closing(
        http.client.HTTPSConnection("127.0.0.1", port, context=ssl._create_unverified_context())
    ) as connection:
        connection.request("GET", "/pods")
        assert connection.getresponse().status == 401


@as_root
def test_another_user_of_the_machine_gets_no_answer(state: Path) -> None:
    node = state / "drahealth"
    sockets = [str(node / name) for name in ("control.sock", "cri.sock")]
    paths = [
        *sockets,
        *(str(node / name) for name in ("kubeconfig", "state.json", "pki/admin.key", "logs/kubelet.log")),
    ]
    kubelet = json.loads((node / "kubelet.json").read_text())["port"]
    requests = [["GET", kubelet, "/pods"], ["GET", urlsplit(status()["server"]).port, "/api/v1/pods"]]
    found = asyncio.run(other_user(paths=paths, sockets=sockets, requests=requests, plain=0))
    assert found == {"opened": [], "answers": {"GET /pods": 401, "GET /api/v1/pods": 401}}


def test_a_script_in_an_annotation_gives_a_container_its_log_and_exit_code(state: Path) -> None:
    drahealth("load", "-", text=FAILING)
    drahealth("kubectl", "wait", "--for=jsonpath={.status.phase}=Failed", "pod/failing", "--timeout=240s")
    code = drahealth("kubectl", "get", "pod", "failing", f"-o=jsonpath={EXIT_CODE}")
    assert (drahealth("kubectl", "logs", "failing"), code) == ("starts\nout of memory\n", "3")


def test_exec_is_refused_with_the_reason(state: Path) -> None:
    assert "exec is not supported by the fake runtime" in drahealth("kubectl", "exec", "job", "--", "ls", code=1)


def test_a_python_program_uses_the_running_node(state: Path) -> None:
    async def story() -> None:
        async with RunningNode() as node:
            driver = await node.driver()
            pod = await node.run_pod_with_device(driver, timeout=PATIENCE)
            await driver.inject("xid/79", "gpu-*")
            device = pod.devices()[0].resource_id.rpartition("/")[2].rpartition("=")[2]
            await pod.wait_for_health(device, "Unhealthy", timeout=PATIENCE)
            await driver.reset()

    asyncio.run(story())


def test_up_without_user_namespaces_prints_one_error_and_leaves_nothing(state: Path) -> None:
    script = f"""echo 0 > /proc/sys/user/max_user_namespaces
    setpriv --inh-caps=-all --bounding-set=-all --no-new-privs {sys.executable} -m drahealth.suites up --name other"""
    command = ["unshare", "--user", "--map-root-user", "sh", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    errors = [line for line in done.stderr.splitlines() if line.startswith("drahealth: ")]
    assert (done.returncode, len(errors), "user namespaces" in errors[0]) == (3, 1, True)
    assert [path.name for path in state.iterdir()] == ["drahealth"]


def test_a_second_up_of_the_name_prints_that_it_is_ready(state: Path) -> None:
    assert "already Ready" in drahealth("up")


def test_a_killed_node_leaves_no_process_and_starts_again_with_its_data(state: Path) -> None:
    drahealth("load", "-", text=JOB)
    drahealth("kubectl", "wait", "--for=condition=Ready", "pod/job", "--timeout=240s")
    drahealth("ctl", "set", "gpu-*", "--health", "unhealthy")
    drahealth("kubectl", "wait", f"--for=jsonpath={HEALTH}=Unhealthy", "pod/job", "--timeout=240s")
    before = status()
    kill(before["pid"], before["pid"])
    drahealth("up")
    after = status()
    assert (after["server"], after["pid"] != before["pid"]) == (before["server"], True)
    drahealth("kubectl", "wait", f"--for=jsonpath={HEALTH}=Healthy", "pod/job", "--timeout=240s")


def test_a_dead_kubelet_ends_the_node_with_the_reason(state: Path) -> None:
    (kubelet,) = pids_of("kubelet", state)
    kill(kubelet, status()["pid"])
    assert re.search("kubelet has ended .by SIGKILL", json.loads(drahealth("status", "--json", code=1))[0]["problem"])
    drahealth("up")


def kill(pid: int, awaited: int) -> None:
    """Kills a process, and waits until another one, or the same, has ended."""
    ended = os.pidfd_open(awaited)
    try:
        os.kill(pid, signal.SIGKILL)
        assert select.select([ended], [], [], PATIENCE)[0]
    finally:
        os.close(ended)


def pids_of(program: str, folder: Path) -> list[int]:
    """The processes of this program that name the folder."""
    return [pid for pid, words in commands() if Path(words[0]).name == program and f"{folder}/" in " ".join(words)]


def commands() -> Iterator[tuple[int, list[str]]]:
    """All processes with their arguments."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has just ended
            yield int(path.parent.name), path.read_bytes().decode(errors="replace").split("\0")
