"""Serves the in-memory API server on a loopback port, for fakes in other processes and simple kubectl commands.

    http = HttpApi(server)
    url = await http.start()
    http.write_kubeconfig(path)

It listens on loopback, over HTTPS. Every request needs the bearer token, which is in the kubeconfig.
"""

import socket
from pathlib import Path
from typing import TYPE_CHECKING

from drahealth.fakes.cluster.api_server.credentials import HOSTS, LOOPBACK, Credentials
from drahealth.fakes.cluster.api_server.request_checks import RequestChecks
from drahealth.fakes.cluster.api_server.server import ApiServer

if TYPE_CHECKING:
    from aiohttp import web


class HttpApi:
    """Serves an `ApiServer` over HTTPS on loopback at `url`, from `start` to `stop`; default: new credentials."""

    def __init__(self, server: ApiServer, credentials: Credentials | None = None) -> None:
        self._server = server
        self._credentials = credentials
        self._runner: web.AppRunner | None = None
        self._url = ""

    @property
    def url(self) -> str:
        """The URL. RuntimeError while it is not served."""
        if not self._url:
            raise RuntimeError("the API server is not served; call start first")
        return self._url

    @property
    def credentials(self) -> Credentials:
        """The credentials that a client needs."""
        self._credentials = self._credentials or Credentials.generate()
        return self._credentials

    async def start(self, port: int = 0) -> str:
        """Listens on this port of the loopback address, 0 for a free port; returns the URL. Raises OSError."""
        from aiohttp import web  # slow import, not needed by the server in this process

        from drahealth.fakes.cluster.api_server.http_errors import ServerLogger
        from drahealth.fakes.cluster.api_server.routes import application

        tls = self.credentials.server_tls()
        # The port is needed before a request is handled. It belongs to this process from here on.
        listening = socket.create_server((LOOPBACK, port))
        host, port = listening.getsockname()
        checks = RequestChecks(self.credentials.token, HOSTS, port)
        # A client that closes its watch cancels the handler. Open watches do not delay the stop.
        # Bodies are not decompressed, as in a real API server.
        self._runner = web.AppRunner(
            application(self._server, checks),
            handler_cancellation=True,
            access_log=None,
            shutdown_timeout=0.1,
            auto_decompress=False,
            logger=ServerLogger(),
        )
        await self._runner.setup()
        await web.SockSite(self._runner, listening, ssl_context=tls).start()
        self._url = f"https://{host}:{port}"
        return self._url

    async def stop(self) -> None:
        """Closes all connections; the API server itself continues."""
        if self._runner is not None:
            await self._runner.cleanup()
        self._runner, self._url = None, ""

    def write_kubeconfig(self, path: Path) -> None:
        """Writes a kubeconfig for this server, readable by its owner only. Raises OSError."""
        self.credentials.write_kubeconfig(path, self.url)
