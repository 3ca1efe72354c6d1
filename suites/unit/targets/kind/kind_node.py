"""A node of a kind cluster in a folder: a `docker` and a `systemctl` that are scripts, and an API server's answers."""

import asyncio
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from drahealth.fakes.cluster.access import Access
from drahealth.fakes.cluster.kube_client import KubeClient
from drahealth.fakes.cluster.kube_connection import KubeConnection

NODE = "x-control-plane"
MANIFEST = """metadata: {name: kube-apiserver}
spec:
  containers:
  - name: kube-apiserver
    command: [kube-apiserver]
"""
CONFIG = "kind: KubeletConfiguration\n"

# Runs what is to run in the container here, with the folder as its root.
_DOCKER = """#!/bin/sh
shift
[ "$1" = -i ] && shift
node=$1 program=$2
shift 2
[ "$program" = cat ] && exec cat "{root}/$node$1"
script=$(printf '%s\n' "$2" | sed 's#\\(/etc/kubernetes\\|/var/l[io][bg]\\|/proc\\)#{root}/'"$node"'\\1#g')
shift 3
case "$1" in /*) set -- "{root}/$node$1" ;; esac
PATH={root}:$PATH exec sh -c "$script" sh "$@"
"""
_SYSTEMCTL = """#!/bin/sh
case "$1" in
  show) echo 0 ;;
  restart) echo restart >> {root}/calls; rm -f {root}/stopped ;;
  stop) touch {root}/stopped ;;
  is-active) ! [ -e {root}/stopped ] ;;
esac
"""
_JOURNALCTL = """#!/bin/sh
echo "the kubelet's last line"
"""


class KindNode:
    """Its API server and kubelet have the gates that their files say, and are back at once after a restart."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.manifest = root / NODE / "etc/kubernetes/manifests/kube-apiserver.yaml"
        self.config = root / NODE / "var/lib/kubelet/config.yaml"
        self.policy = root / NODE / "etc/kubernetes/pki/drahealth-audit-policy.json"
        self.back = True
        self.leases = 1
        """How often the scheduler has made its lease."""
        for path, text in ((self.manifest, MANIFEST), (self.config, CONFIG)):
            path.parent.mkdir(parents=True)
            path.write_text(text)
        (root / NODE / "proc").mkdir()
        for name, script in (("docker", _DOCKER), ("systemctl", _SYSTEMCTL), ("journalctl", _JOURNALCTL)):
            (root / name).write_text(script.format(root=root))
            (root / name).chmod(0o755)

    async def start(self) -> KubeClient:
        application = web.Application()
        application.router.add_get("/{path:.*}", self._answer)
        application.router.add_delete("/{path:.*}/leases/kube-scheduler", self._delete_lease)
        self.server = TestServer(application)
        await self.server.start_server()

        self.client = KubeClient(KubeConnection(Access.to(str(self.server.make_url("")).rstrip("/"))))
        return self.client

    async def stop(self) -> None:
        await self.client.close()
        await self.server.close()

    def log(self, name: str, *lines: str) -> None:
        """A log of the API server's container. Each line is a stream, a flag and a text."""
        path = self.root / NODE / "var/log/pods" / f"kube-system_kube-apiserver-{NODE}_0815" / "kube-apiserver" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"2026-01-01T00:00:00.000000001Z {line}\n" for line in lines))

    def restarts(self) -> int:
        calls = self.root / "calls"
        return len(calls.read_text().splitlines()) if calls.exists() else 0

    async def run(self, name: str = "kube-apiserver") -> asyncio.subprocess.Process:
        """A process that the node takes for this one of its own."""
        process = await asyncio.create_subprocess_exec("sleep", "60")
        cmdline = self.root / NODE / "proc" / str(process.pid) / "cmdline"
        cmdline.parent.mkdir()
        cmdline.write_text(f"/usr/bin/{name}\0--flag=1\0")
        return process

    async def _delete_lease(self, request: web.Request) -> web.Response:
        self.leases += 1
        return web.json_response({})

    async def _answer(self, request: web.Request) -> web.Response:
        path, now = request.path, datetime.now(UTC).isoformat()
        if path == "/readyz":
            return web.Response(text="ok")
        if path == "/metrics":
            return _metrics(self.manifest.read_text(), "=")
        if path.endswith("/proxy/metrics"):
            return _metrics(self.config.read_text(), ": ")
        lease: dict[str, Any] = {"spec": {"renewTime": now if self.back else "2020-01-01T00:00:00Z"}}
        if path.endswith("/leases"):
            lease["metadata"] = {"name": "kube-scheduler", "uid": str(self.leases)}
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": [lease]})
        if "/leases/" in path:
            return web.json_response(lease)
        if "/pods/" in path:
            return web.json_response({"metadata": {"annotations": {"kubernetes.io/config.hash": "0815"}}})
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": now}
        return web.json_response({"spec": {}, "status": {"conditions": [ready]}})


def entry(code: int = 200, message: str = "", namespace: str = "n") -> dict[str, Any]:
    """An entry of the audit log about a write of a Pod status by a kubelet."""
    written = {"resource": "pods", "namespace": namespace, "name": "pod-1", "uid": "u", "subresource": "status"}
    status = {"code": code, "message": message}
    return {"user": {"username": "system:node:x"}, "objectRef": written, "responseStatus": status}


def _metrics(text: str, sign: str) -> web.Response:
    gates = {name: re.search(rf"{name}{sign}(\w+)", text) for name in ("GateA", "GateB")}
    on = {name: int(found is None or found[1] == "true") for name, found in gates.items()}
    return web.Response(
        text="".join(f'kubernetes_feature_enabled{{name="{name}",stage=""}} {on[name]}\n' for name in on)
    )
