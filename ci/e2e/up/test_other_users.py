"""Another user of this machine has no access to a node of `drahealth up` (docs/security.md)."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from drahealth.suites.unit.listening_processes import files_of, listening, processes
from drahealth.suites.unit.other_user import as_root, other_user
from drahealth.suites.unit.up_command.node_commands import RELEASE, drahealth, folder_of_nodes

API_PATHS = ("/", "/api", "/api/v1/secrets", "/readyz", "/openapi/v3", "/version")
KUBELET_PATHS = (
    *("/pods", "/runningpods/", "/configz", "/stats/summary", "/healthz", "/metrics", "/metrics/resource"),
    *("/containerLogs/default/job/main", "/exec/default/job/main?command=id", "/debug/pprof/"),
)


@pytest.fixture
def node() -> Iterator[Path]:
    """The folder of a Ready node."""
    with folder_of_nodes("users") as folder:
        try:
            drahealth("up", *RELEASE)
            yield folder
        finally:
            drahealth("down")
            folder.rmdir()


def _marked(path: str, port: int) -> str:
    """The path, different for each port."""
    return f"{path}{'&' if '?' in path else '?'}port={port}"


@as_root
async def test_another_user_gets_no_answer_of_a_node(node: Path) -> None:
    (status,) = json.loads(drahealth("status", "--json"))
    running = {status["pid"]: "supervisor", **processes(node)}
    ports, abstract = listening(running)
    kubelet = json.loads((node / "drahealth" / "kubelet.json").read_text())["port"]
    files, sockets = files_of(node)
    found = await other_user(
        paths=[str(path) for path in files],
        sockets=[str(path) for path in sockets],
        requests=[("GET", port, _marked(path, port)) for port in ports for path in (*API_PATHS, *KUBELET_PATHS)],
        plain=None,
    )
    assert {"kubelet", "kube-apiserver", "etcd", "kube-scheduler", "kube-controller-manager"} <= set(running.values())
    assert (len(ports) >= 2, len(sockets) >= 3, abstract) == (True, True, set())  # kubelet, API server; etcd, ...
    # A kubelet answers 404 for paths that it does not have, to everybody.
    unknown = [f"GET {_marked(path, kubelet)}" for path in API_PATHS]
    wrong = {
        request: code for request, code in found["answers"].items() if code != (404 if request in unknown else 401)
    }
    assert (found["opened"], wrong) == ([], {})
