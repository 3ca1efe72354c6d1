"""Serves the in-memory API server on a loopback port, for fakes in other processes and simple kubectl commands.

    http = HttpApi(server)
    url = await http.start()
    http.write_kubeconfig(path)

There is no authentication: all users of this machine can connect.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.files.atomic import replace_file

if TYPE_CHECKING:
    from aiohttp import web

_NAME = "drahealth"


class HttpApi:
    """Serves an `ApiServer` over HTTP on loopback, at `url`, from `start` to `stop`."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._runner: web.AppRunner | None = None
        self._url = ""

    @property
    def url(self) -> str:
        """The URL. RuntimeError while it is not served."""
        if not self._url:
            raise RuntimeError("the API server is not served; call start first")
        return self._url

    async def start(self, port: int = 0) -> str:
        """Listens on this port of the loopback address, 0 for a free port; returns the URL. Raises OSError."""
        from aiohttp import web  # slow import, not needed by the server in this process

        from drahealth.fakes.cluster.api_server.routes import application

        # A client that closes its watch cancels the handler. Open watches do not delay the stop.
        self._runner = web.AppRunner(
            application(self._server), handler_cancellation=True, access_log=None, shutdown_timeout=0.1
        )
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, "127.0.0.1", port).start()
        except OSError:
            await self.stop()
            raise
        host, port = self._runner.addresses[0][:2]
        self._url = f"http://{host}:{port}"
        return self._url

    async def stop(self) -> None:
        """Closes all connections; the API server itself continues."""
        if self._runner is not None:
            await self._runner.cleanup()
        self._runner, self._url = None, ""

    def write_kubeconfig(self, path: Path) -> None:
        """Writes a kubeconfig for this server, readable by its owner only. Raises OSError."""
        context = {"cluster": _NAME, "user": _NAME, "namespace": "default"}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": _NAME, "cluster": {"server": self.url}}],
            "users": [{"name": _NAME, "user": {}}],
            "contexts": [{"name": _NAME, "context": context}],
            "current-context": _NAME,
        }
        replace_file(path, json.dumps(config, indent=2).encode() + b"\n")
