"""Metrics for Prometheus over HTTP."""

from collections.abc import Awaitable, Callable

from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_LATEST


class MetricsServer:
    """Answers at `/metrics` with the text that it is given, from `start` to `stop`."""

    def __init__(self, text: Callable[[], Awaitable[bytes]]) -> None:
        self._text = text
        app = web.Application()
        app.router.add_get("/metrics", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)

    async def start(self, address: str, port: int) -> None:
        """Port 0 is any free one. Raises OSError where the port cannot be had."""
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, address, port).start()
        except BaseException:
            await self._runner.cleanup()
            raise

    async def stop(self) -> None:
        """Answers no more."""
        await self._runner.cleanup()

    @property
    def url(self) -> str:
        """Where they are."""
        host, port = self._runner.addresses[0][:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/metrics"

    async def _answer(self, request: web.Request) -> web.Response:
        return web.Response(body=await self._text(), headers={"Content-Type": CONTENT_TYPE_LATEST})
