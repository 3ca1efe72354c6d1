"""Serves metrics for Prometheus over HTTP."""

from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from drahealth.fakes.program.private_files import BearerToken

LOOPBACK = "127.0.0.1"
"""The address for this machine alone. All its users can connect to it."""


class MetricsServer:
    """Serves the given text at `/metrics`, from `start` to `stop`.

    Requests without the token get 401, on all paths; token None serves everybody.
    """

    def __init__(self, text: Callable[[], Awaitable[bytes]], token: BearerToken | None) -> None:
        self._text = text
        self._token = token
        app = web.Application(middlewares=[self._authorize])
        app.router.add_get("/metrics", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)

    async def start(self, address: str, port: int) -> None:
        """Starts the server; port 0 selects a free port. Raises OSError if the port is in use."""
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, address, port).start()
        except BaseException:
            await self._runner.cleanup()
            raise

    async def stop(self) -> None:
        """Stops the server."""
        await self._runner.cleanup()

    @property
    def url(self) -> str:
        """The URL of the metrics."""
        host, port = self._runner.addresses[0][:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/metrics"

    @web.middleware
    async def _authorize(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if self._token and not self._token.permits(request.headers.get("Authorization", "")):
            return web.Response(status=401, text="missing or wrong token\n", headers={"WWW-Authenticate": "Bearer"})
        return await handler(request)

    async def _answer(self, request: web.Request) -> web.Response:
        return web.Response(body=await self._text(), headers={"Content-Type": CONTENT_TYPE_LATEST})
