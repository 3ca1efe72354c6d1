"""docs/security.md lists every server and socket."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "security.md"
LISTENS = re.compile(
    r"TCPSite|SockSite|UnixSite|add_(in)?secure_port|start_(unix_)?server|create_(unix_)?server\(|\.bind\((str|\(\")"
)
LISTED = {
    "fakes/cluster/api_server/http.py": "API server in memory",
    "fakes/cluster/cri.py": "fake container runtime",
    "fakes/control/socket_path.py": "control socket",
    "fakes/program/metrics_server.py": "metrics of",
    "fakes/serve/program.py": "control socket",
    "fakes/serve/session_process.py": "control socket of a driver in another process",
    "fakes/sockets.py": "sockets of fake drivers",
    "manager/registration.py": "sockets of the reference",
    "suites/driver_checks/mutants/backend.py": "sockets of a driver under test",
    "suites/fleet/program.py": "control socket of a fleet",
    "suites/processes/keeper.py": "proxy between a driver under test and its API server",
    "suites/driver_checks/subject/gateway.py": "proxy between a driver under test and its API server",
    "suites/targets/kubelet/processes.py": "kube-apiserver",
}
"""The modules that listen, and the words of their rows."""


def test_every_module_that_listens_has_a_row() -> None:
    modules = [path for part in ("fakes", "manager", "proto", "suites") for path in (ROOT / part).rglob("*.py")]
    found = {
        str(path.relative_to(ROOT))
        for path in modules
        if not path.is_relative_to(ROOT / "suites" / "unit") and LISTENS.search(path.read_text())
    }
    rows = [row for row in PAGE.read_text().splitlines() if row.startswith("| ")]
    assert found == set(LISTED)
    assert [words for words in LISTED.values() if not any(row.startswith(f"| {words}") for row in rows)] == []


def test_every_row_names_tests_that_exist() -> None:
    rows = [row for row in PAGE.read_text().splitlines() if row.startswith("| ") and not row.startswith("| server or")]
    links = [re.findall(r"\]\(([^)#]+)", row.rsplit("|", 2)[1]) for row in rows]
    assert [row for row, found in zip(rows, links, strict=True) if not found] == []
    assert [link for found in links for link in found if not (PAGE.parent / link).exists()] == []
