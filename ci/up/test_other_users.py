"""What another user of this machine can do with a node of `drahealth up`: nothing (docs/security.md)."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from drahealth.suites.unit.other_user import as_root, other_user

PATIENCE = 300.0
API_PATHS = ("/", "/api", "/api/v1/secrets", "/readyz", "/openapi/v3", "/version")
KUBELET_PATHS = (
    *("/pods", "/runningpods/", "/configz", "/stats/summary", "/healthz", "/metrics", "/metrics/resource"),
    *("/containerLogs/default/job/main", "/exec/default/job/main?command=id", "/debug/pprof/"),
)


def drahealth(*arguments: str) -> str:
    command = [sys.executable, "-m", "drahealth.suites", *arguments]
    return subprocess.run(command, check=True, timeout=PATIENCE, stdout=subprocess.PIPE, text=True).stdout


@pytest.fixture
def node() -> Iterator[Path]:
    """The folder of a Ready node."""
    folder = Path(f"/tmp/dh-users-{os.getpid()}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DRAHEALTH_STATE", str(folder))
        patch.delenv("DRAHEALTH_SOCKET", raising=False)
        try:
            drahealth("up", *(["--kubernetes", os.environ["KUBERNETES"]] if os.environ.get("KUBERNETES") else []))
            yield folder
        finally:
            drahealth("down")
            folder.rmdir()


def processes(folder: Path) -> dict[int, str]:
    """The programs of the node by process ID: those that name the folder, and their children."""
    found, parents = dict[int, str](), dict[int, int]()
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (path / "cmdline").read_bytes().decode(errors="replace").split("\0")
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if any(f"{folder}/" in word for word in words):
                found[int(path.name)] = Path(words[0]).name
    while more := {pid: "child" for pid, parent in parents.items() if parent in found and pid not in found}:
        found |= more
    return found


def listening(pids: Iterable[int]) -> tuple[set[int], set[str]]:
    """The TCP ports, and the unix sockets without a file, at which these processes listen."""
    ports, abstract = set[int](), set[str]()
    for pid in pids:
        links = set[str]()
        for path in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                links.add(str(path.readlink()))
        for name in ("tcp", "tcp6"):
            rows = [row.split() for row in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()]
            ports |= {int(r[1].rpartition(":")[2], 16) for r in rows if r[3] == "0A" and f"socket:[{r[9]}]" in links}
        rows = [row.split() for row in Path(f"/proc/{pid}/net/unix").read_text().splitlines()[1:]]
        abstract |= {r[7] for r in rows if len(r) > 7 and r[7].startswith("@") and f"socket:[{r[6]}]" in links}
    return ports, abstract


def files_of(folder: Path) -> tuple[list[Path], list[Path]]:
    """The files below the folder, and those of them that are sockets."""
    files = [path for path in folder.rglob("*") if not path.is_dir()]
    return files, [path for path in files if path.is_socket()]


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
