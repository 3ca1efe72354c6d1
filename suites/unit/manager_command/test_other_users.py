"""Other users of this machine cannot access a manager."""

import json
import os
import stat
from urllib.parse import urlsplit

import pytest
from aiohttp import ClientSession

from drahealth.proto.events import ManagerStarted
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.unit.manager.rig import until
from drahealth.suites.unit.manager_command.manager_process import Manager
from drahealth.suites.unit.manager_command.rig import PATIENCE, Rig, pod
from drahealth.suites.unit.other_user import as_root, other_user


def port_of(url: str) -> int:
    return urlsplit(url).port or 0


@as_root
async def test_another_user_gets_no_answer_without_credentials(rig: Rig, manager: Manager) -> None:
    rig.root.chmod(0o755)  # as if somebody had made it before
    rig.write("job.yaml", pod())
    await manager.start("--metrics-port", "0", "--history", str(rig.root / "history.jsonl"))
    await until(lambda: rig.status().get("phase") == "Running", PATIENCE)
    metrics = port_of(manager.lines[0]["metrics"])
    server = json.loads((rig.root / "kubeconfig").read_text())["clusters"][0]["cluster"]["server"]
    paths = [path for path in rig.root.rglob("*") if not path.is_dir() and path.name != "job.yaml"]
    found = await other_user(
        paths=[str(path) for path in paths],
        sockets=[str(path) for path in paths if path.is_socket()],
        requests=[
            *(("GET", port_of(server), path) for path in ("/api", "/readyz", "/api/v1/pods?watch=true")),
            ("POST", port_of(server), "/api/v1/namespaces/default/pods"),
            ("GET", metrics, "/metrics"),
            ("POST", metrics, "/metrics"),
            ("GET", metrics, "/other"),
        ],
        plain=metrics,
    )
    assert {"kubelet.sock", "kubeconfig", "credentials.json", "metrics-token", "history.jsonl"} <= {
        path.name for path in paths
    }
    assert found["opened"] == []
    assert found["answers"] == {
        **dict.fromkeys(("GET /api", "GET /readyz", "GET /api/v1/pods?watch=true"), 401),
        "POST /api/v1/namespaces/default/pods": 401,
        **dict.fromkeys(("GET /metrics", "POST /metrics", "GET /other"), 401),
    }


async def test_the_folders_of_sockets_are_for_their_owner_only(rig: Rig, manager: Manager) -> None:
    await manager.start()
    folders = [rig.root / name for name in ("plugins_registry", "device-plugins", "api")]
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in folders} == {0o700}


async def test_the_metrics_are_on_loopback_only(rig: Rig) -> None:
    program = await rig.start(metrics_port=0)
    assert program
    (started,) = [event for event in rig.events if isinstance(event, ManagerStarted)]
    assert urlsplit(str(started.metrics)).hostname == "127.0.0.1"


async def test_the_metrics_answer_with_the_token_of_the_root_directory(rig: Rig) -> None:
    await rig.start(metrics_port=0)
    token = (rig.root / "metrics-token").read_text().strip()
    (url,) = [event.metrics for event in rig.events if isinstance(event, ManagerStarted)]
    async with ClientSession() as session:
        answers = [
            (await session.get(str(url), headers={"Authorization": header})).status
            for header in (f"Bearer {token}", f"Bearer {token}x", f"Basic {token}", token)
        ]
    assert answers == [200, 401, 401, 401]


async def test_the_next_manager_has_the_same_metrics_token(rig: Rig) -> None:
    tokens = []
    for _ in range(2):
        await rig.start(metrics_port=0)
        await rig.stop()
        tokens.append((rig.root / "metrics-token").read_text())
    assert tokens[0] == tokens[1]


async def test_a_metrics_token_that_others_can_read_is_rejected(rig: Rig) -> None:
    (rig.root / "metrics-token").write_text("0123456789abcdef\n")
    (rig.root / "metrics-token").chmod(0o644)
    with pytest.raises(ConfigurationError, match=r"other users can use .*metrics-token; remove it"):
        await rig.start(metrics_port=0)


async def test_a_new_root_directory_is_for_its_owner_only(rig: Rig) -> None:
    rig.root = rig.root / "new" / "root"
    rig.options()
    assert stat.S_IMODE(rig.root.stat().st_mode) == 0o700


async def test_a_root_directory_that_every_user_can_write_is_rejected(rig: Rig) -> None:
    rig.root.chmod(0o1777)
    with pytest.raises(ConfigurationError, match="every user can write") as error:
        rig.options()
    assert "--root-dir" in str(error.value.hint)


@as_root
async def test_a_root_directory_of_another_user_is_rejected(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    with pytest.raises(ConfigurationError, match="belongs to another user"):
        rig.options()
