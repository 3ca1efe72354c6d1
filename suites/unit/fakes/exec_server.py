"""A server with one pod, in which programs behave as a test wants."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from drahealth.fakes.cluster.access import Access
from drahealth.fakes.cluster.kube_connection import KubeConnection

Behaviour = Callable[[web.WebSocketResponse], Awaitable[None]]
SUCCESS = b"\x03" + json.dumps({"status": "Success"}).encode()
FAILURE = b"\x03" + json.dumps({"status": "Failure", "message": "command terminated with exit code 3"}).encode()


@asynccontextmanager
async def server_that(behaves: Behaviour, asked: list[str] | None = None) -> AsyncIterator[KubeConnection]:
    """A connection to a server whose containers behave so."""

    async def handle(request: web.Request) -> web.WebSocketResponse:
        if asked is not None:
            asked.append(request.path_qs)
        socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",))
        await socket.prepare(request)
        await behaves(socket)
        await socket.close()
        return socket

    app = web.Application()
    app.router.add_get("/api/v1/namespaces/ns/pods/pod/exec", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    connection = KubeConnection(Access.to(f"http://127.0.0.1:{runner.addresses[0][1]}"))
    try:
        yield connection
    finally:
        await connection.close()
        await runner.cleanup()
