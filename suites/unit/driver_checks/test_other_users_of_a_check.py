"""Another user of this machine has no access to a running check."""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path

from drahealth.suites.unit.endings import PATIENCE
from drahealth.suites.unit.manager.rig import until
from drahealth.suites.unit.other_user import as_root, other_user

NOTE = "import os, sys; open(sys.argv[1], 'a').write(sys.argv[2] + '\\n'); os.execvp(sys.argv[3], sys.argv[3:])"
"""Writes its second argument to the file of the first one, and then runs the others."""

DRAHEALTH = (sys.executable, "-m", "drahealth.suites")
DRIVER = (
    *(*DRAHEALTH, "driver", "serve", "--kubelet-dir={kubelet_dir}", "--kubeconfig={kubeconfig}"),
    *("--node-name={node_name}", "--cdi-dir={cdi_dir}", "--socket={driver_dir}/control.sock", "-f"),
)


def listening_ports(pid: int) -> set[int]:
    """The TCP ports at which a process listens."""
    links = set[str]()
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            links.add(str(path.readlink()))
    rows = [row.split() for name in ("tcp", "tcp6") for row in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in links}


@as_root
async def test_another_user_gets_no_answer_of_a_check_without_credentials(tmp_path: Path) -> None:
    noted, inventory = tmp_path / "noted", tmp_path / "gpus.yaml"
    inventory.write_text("format: inventory/v1\ndevices: [{name: gpu}]\n")
    driver = (sys.executable, "-c", NOTE, str(noted), "{kubelet_dir}", *DRIVER, str(inventory))
    check = await asyncio.create_subprocess_exec(
        *DRAHEALTH, "check", "--requirement=HEALTH-06", f"--evidence={tmp_path / 'evidence'}", "--", *driver
    )
    try:
        await until(lambda: noted.exists() and noted.read_text().endswith("\n"), PATIENCE)
        root = Path(noted.read_text().splitlines()[0])
        await until(lambda: [*root.glob("plugins_registry/*.sock")], PATIENCE)
        ports = listening_ports(check.pid)
        paths = [tmp_path / "evidence", *(path for path in root.parent.rglob("*") if not path.is_dir())]
        found = await other_user(
            paths=[str(path) for path in paths],
            sockets=[str(path) for path in paths if path.is_socket()],
            requests=[("GET", port, f"/api?port={port}") for port in ports],
            plain=None,
        )
    finally:
        check.terminate()
        await check.wait()
    assert {"kubeconfig", "dra.sock", "evidence"} <= {path.name for path in paths}
    assert found == {"opened": [], "answers": {f"GET /api?port={port}": 401 for port in ports}}
    assert ports
