"""Other users of this machine cannot access `drahealth driver serve` (docs/security.md)."""

import os
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from drahealth.suites.unit.other_user import as_root, other_user
from drahealth.suites.unit.serve.rig import Rig


def sockets_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_socket()]


@as_root
async def test_another_user_reaches_no_socket_and_no_metrics_of_a_driver(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.root.chmod(0o755)
    before = os.umask(0)  # as a careless service manager
    try:
        await rig.serve(metrics_port=0)
    finally:
        os.umask(before)
    sockets = sockets_below(rig.root)
    port = urlsplit(rig.metrics_url).port or 0
    token = rig.root / "control.sock.metrics-token"
    found = await other_user(
        paths=[str(path) for path in (*sockets, token)],
        sockets=list(map(str, sockets)),
        requests=[("GET", port, "/metrics"), ("GET", port, "/other")],
        plain=port,
    )
    names = {path.name for path in sockets}
    assert {"control.sock", "dra.sock"} <= names
    assert found == {"opened": [], "answers": {"GET /metrics": 401, "GET /other": 401}}
