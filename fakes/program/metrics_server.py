"""Serves metrics for Prometheus over HTTP."""

from collections.abc import Awaitable, Callable

from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_LATEST


class MetricsServer:
    """Serves the given text at `/metrics`, from `start` to `stop`."""

    def __init__(self, text: Callable[[], Awaitable[bytes]]) -> None:
        self._text = text
        app = web.Application()
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

    async def _answer(self, request: web.Request) -> web.Response:
        return web.Response(body=await self._text(), headers={"Content-Type": CONTENT_TYPE_LATEST})
