"""Another user of this machine has no access to a node of `drahealth up --reference` (docs/security.md)."""

import json
from pathlib import Path

from drahealth.suites.unit.command_process import COMMAND, run
from drahealth.suites.unit.listening_processes import files_of, listening, processes
from drahealth.suites.unit.other_user import as_root, other_user

PATHS = ("/", "/api", "/api/v1/secrets", "/api/v1/pods?watch=true", "/readyz", "/version", "/metrics")


def start(nodes: Path) -> int:
    """The process of a Ready node, whose folder is in one that everybody can read."""
    nodes.mkdir(mode=0o755)
    assert run(COMMAND, "up", "--reference").returncode == 0
    (status,) = json.loads(run(COMMAND, "status", "--json").stdout)
    return int(status["pid"])


@as_root
async def test_another_user_gets_no_answer_of_a_reference_node(nodes: Path) -> None:
    ports, abstract = listening({start(nodes), *processes(nodes)})
    files, sockets = files_of(nodes)
    found = await other_user(
        paths=[str(path) for path in files],
        sockets=[str(path) for path in sockets],
        requests=[(method, port, path) for port in ports for method in ("GET", "POST") for path in PATHS],
        plain=None,
    )
    assert {"control.sock", "kubelet.sock", "kubeconfig", "state.json"} <= {path.name for path in files}
    assert (len(ports), abstract) == (1, set())  # the API server
    assert (found["opened"], set(found["answers"].values())) == ([], {401})
