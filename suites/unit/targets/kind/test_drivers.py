"""Connections to the drivers in a pod."""

import pytest
from aiohttp import web

from drahealth.fakes.cluster.kube_client import KubeClient
from drahealth.fakes.control.remote import ControlFailed
from drahealth.suites.targets.pods import deployment
from drahealth.suites.unit.fakes.exec_server import FAILURE, server_that


async def test_a_failed_connection_to_a_pod_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployment, "PATIENCE", 0.3)

    async def has_no_python(socket: web.WebSocketResponse) -> None:
        await socket.send_bytes(b"\x02No module named drahealth\n")
        await socket.send_bytes(FAILURE)

    async def is_there() -> str:
        return ""

    async with server_that(has_no_python) as connection:
        host = deployment.host_in(KubeClient(connection), "ns", "pod", is_there)
        with pytest.raises(ControlFailed) as failed:
            await host.jump(1)
        await host.close()
    command = "python -m drahealth.fakes.control.connect /run/drahealth/control.sock"
    why = f"{command} in pod pod: No module named drahealth (command terminated with exit code 3)"
    assert str(failed.value) == f"jump: the driver is gone: {why}"
