"""`drahealth up` on a real kubelet, as a user has it: only commands, each in a process of its own."""

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

import pytest

PATIENCE = 300.0
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
HEALTH = "{.status.containerStatuses[0].allocatedResourcesStatus[0].resources[0].health}"


def drahealth(*arguments: str, code: int = 0, text: str | None = None) -> str:
    """The output of a command, which must have this exit code."""
    command = [sys.executable, "-m", "drahealth.suites", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, input=text, timeout=PATIENCE, check=False)
    assert done.returncode == code, (arguments, done.stdout, done.stderr)
    return done.stdout + done.stderr


def status() -> dict[str, Any]:
    (found,) = json.loads(drahealth("status", "--json"))
    return dict(found)


@pytest.fixture(scope="module")
def state() -> Iterator[Path]:
    """A Ready node in a folder of its own; nothing of it is left at the end."""
    folder = Path(f"/tmp/dh-up-{os.getpid()}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DRAHEALTH_STATE", str(folder))
        patch.delenv("DRAHEALTH_SOCKET", raising=False)
        try:
            drahealth("up", *(["--kubernetes", os.environ["KUBERNETES"]] if os.environ.get("KUBERNETES") else []))
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


def test_nobody_without_a_certificate_reads_from_the_kubelet(state: Path) -> None:
    port = json.loads((state / "drahealth" / "kubelet.json").read_text())["port"]
    with closing(
        http.client.HTTPSConnection("127.0.0.1", port, context=ssl._create_unverified_context())
    ) as connection:
        connection.request("GET", "/pods")
        assert connection.getresponse().status == 401


def test_logs_of_a_container_come_through_the_api_server(state: Path) -> None:
    assert drahealth("kubectl", "logs", "job") == ""


def test_a_second_up_of_the_name_is_refused(state: Path) -> None:
    assert "already up" in drahealth("up", code=3)


def test_a_killed_node_leaves_no_process_and_starts_again_with_its_data(state: Path) -> None:
    before = status()
    kill(before["pid"], before["pid"])
    drahealth("up")
    after = status()
    assert (after["server"], after["pid"] != before["pid"]) == (before["server"], True)
    drahealth("kubectl", "wait", "--for=condition=Ready", "pod/job", "--timeout=240s")


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
