"""The way from a driver to its API server: a proxy on loopback that can be down, and can hold back reads of a claim.

It works with any API server, so that experiments need not stop a server that others use. A driver needs the token of
its own kubeconfig.
"""

import asyncio
import re
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
from aiohttp import web

from drahealth.fakes.cluster.api import ApiError
from drahealth.fakes.cluster.api_server.answers import status_response
from drahealth.fakes.cluster.api_server.credentials import HOSTS, LOOPBACK, Credentials
from drahealth.fakes.cluster.api_server.request_bodies import BODY_LIMIT
from drahealth.fakes.cluster.api_server.request_checks import RequestChecks
from drahealth.fakes.cluster.clients.access import Access
from drahealth.fakes.program.atomic import replace_file
from drahealth.suites.checking.sandbox.sockets import bound

_CLAIM = re.compile(r"/apis/resource\.k8s\.io/[^/]+/namespaces/(?P<namespace>[^/]+)/resourceclaims/(?P<name>[^/]+)")
_HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "host", "authorization"}
)
"""Headers that are not passed on (RFC 9110, section 7.6.1), and the driver's own credentials."""


Bind = Callable[[int], Awaitable[socket.socket]]
"""Opens a socket at a port of loopback, 0 for a free one; several can share a port."""


async def bound_here(port: int) -> socket.socket:
    """A socket at this port of the machine's loopback."""
    return bound(port)


class Gateway:
    """A proxy at `url` for one driver process. It is up from `start` to `stop`, except while it is down."""

    def __init__(self, access: Access, bind: Bind = bound_here) -> None:
        self._access = access
        self._bind = bind
        self._credentials = Credentials.generate()
        self._reserved: socket.socket | None = None
        self._runner: web.AppRunner | None = None
        self._session: aiohttp.ClientSession | None = None
        self._checks: RequestChecks | None = None
        self._held: dict[tuple[str, str], tuple[asyncio.Event, asyncio.Event]] = {}

    @property
    def url(self) -> str:
        """The URL, also while it is down."""
        assert self._reserved is not None
        return f"https://{LOOPBACK}:{self._reserved.getsockname()[1]}"

    @property
    def token(self) -> str:
        """The token in the driver's kubeconfig."""
        return self._credentials.token

    async def start(self, kubeconfig: Path) -> None:
        """Reserves a port, and writes a kubeconfig with a token, readable by this user only. The proxy is up."""
        self._reserved = await self._bind(0)
        self._checks = RequestChecks(self._credentials.token, HOSTS, self._reserved.getsockname()[1])
        connector = aiohttp.TCPConnector(ssl=self._access.tls(), limit=0)
        self._session = aiohttp.ClientSession(connector=connector, auto_decompress=False)
        self._credentials.write_kubeconfig(kubeconfig, self.url)
        await self.up()

    def write_service_account(self, folder: Path) -> None:
        """Writes the files that a program in a Pod has for its API server, readable by this user only."""
        for name, text in (("token", self._credentials.token), ("ca.crt", self._credentials.authority)):
            replace_file(folder / name, text.encode())

    async def stop(self) -> None:
        """Closes all connections, and releases the port."""
        await self.down()
        if self._session:
            await self._session.close()
        if self._reserved:
            self._reserved.close()

    async def up(self) -> None:
        """Accepts connections; no effect if it is up."""
        if self._runner:
            return
        assert self._reserved is not None
        app = web.Application(client_max_size=BODY_LIMIT)
        app.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        listening = await self._bind(self._reserved.getsockname()[1])
        await web.SockSite(runner, listening, ssl_context=self._credentials.server_tls()).start()
        self._runner = runner

    async def down(self) -> None:
        """Closes all connections and refuses new ones; no effect if it is down."""
        runner, self._runner = self._runner, None
        if runner:
            await runner.cleanup()

    @asynccontextmanager
    async def hold(self, namespace: str, name: str) -> AsyncGenerator[asyncio.Event, None]:
        """Holds back reads of this claim until the end. The event is set when the driver reads it."""
        asked, released = asyncio.Event(), asyncio.Event()
        self._held[namespace, name] = asked, released
        try:
            yield asked
        finally:
            del self._held[namespace, name]
            released.set()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        assert self._session is not None
        assert self._checks is not None
        try:
            self._checks.check(request.headers, has_body=request.can_read_body)
        except ApiError as error:
            return status_response(error)
        await self._wait_for_release(request)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP}
        headers |= await self._access.headers()
        body = await request.read() if request.can_read_body else None
        try:
            async with self._session.request(
                request.method,
                self._access.host + request.rel_url.raw_path_qs,
                headers=headers,
                data=body,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=30),
                allow_redirects=False,
                server_hostname=self._access.server_name,
            ) as upstream:
                return await _passed_on(request, upstream)
        except (aiohttp.ClientConnectionError, OSError) as error:
            return status_response(ApiError(503, "ServiceUnavailable", f"cannot reach the API server: {error}"))

    async def _wait_for_release(self, request: web.Request) -> None:
        claim = _CLAIM.fullmatch(request.path) if request.method == "GET" else None
        if claim and (held := self._held.get((claim["namespace"], claim["name"]))):
            asked, released = held
            asked.set()
            await released.wait()


async def _passed_on(request: web.Request, upstream: aiohttp.ClientResponse) -> web.StreamResponse:
    headers = {name: value for name, value in upstream.headers.items() if name.lower() not in _HOP_BY_HOP}
    response = web.StreamResponse(status=upstream.status, reason=upstream.reason, headers=headers)
    await response.prepare(request)
    with suppress(aiohttp.ClientError, ConnectionError):  # either end may close a watch
        async for data in upstream.content.iter_any():
            await response.write(data)
        await response.write_eof()
    return response
