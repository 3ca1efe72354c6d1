"""The way from a driver to its API server, and the objects in it before the driver starts."""

import asyncio
import re
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from drahealth.fakes.cluster.access import Access
from drahealth.fakes.cluster.api import CRDS, NAMESPACES, NODES, ApiError, Kind, ListWatch, Object, custom_kinds
from drahealth.fakes.cluster.api_server.http import HOSTS, LOOPBACK, Credentials
from drahealth.fakes.cluster.api_server.messages import BODY_LIMIT, status_response
from drahealth.fakes.cluster.api_server.request_checks import RequestChecks
from drahealth.fakes.program.private_files import replace_file
from drahealth.fakes.waiting import poll
from drahealth.suites.driver_checks.subject.places import Places, filled
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.processes.keeper import bound

# The way from a driver to its API server: a proxy on loopback that can be down, and can hold back reads of a claim.
#
# It works with any API server, so that experiments need not stop a server that others use. A driver needs the token
# of its own kubeconfig.

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


# The objects in the API server of a driver process before the driver starts: its Node, and those of the user.

ESTABLISHED_LIMIT = 120.0
"""Seconds until an API server serves the kind of a CustomResourceDefinition."""
_INTERVAL = 0.1
Created = Callable[[Kind, Object], None]
"""Receives an object that was created."""
_NOT_FOUND = 404


async def create_objects(
    api: ListWatch,
    given: Sequence[Mapping[str, Any]],
    places: Places,
    created: Created = lambda *_: None,
) -> None:
    """Creates these objects, and the Node of the driver if it is not among them. `created` receives each of them.

    Namespaces come first, then CustomResourceDefinitions, whose kinds are served before the other objects are created.
    Placeholders in texts are replaced. Raises ConfigurationError if the API server rejects an object, and HarnessError
    if it does not serve a kind in time.
    """
    objects = [with_placeholders(one, places.placeholders()) for one in given]
    custom = set[tuple[str, str]]()
    for one in sorted(objects, key=_order):
        try:
            if (one["apiVersion"], one["kind"]) in custom:
                await _served(partial(_create, api, one, created))
            else:
                await _create(api, one, created)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                what = f"the API server rejects {one['kind']} {one['metadata'].get('name')}: {error}"
                raise ConfigurationError(what, "correct the objects of [api-server]") from None
        if one["kind"] == CRDS.kind:
            await _wait_until_established(api, one["metadata"]["name"])
            custom |= {(kind.api_version, kind.kind) for kind in custom_kinds(one)}
    if not any(one["kind"] == NODES.kind and one["metadata"].get("name") == places.node_name for one in objects):
        await _create_node(api, places.node_name, created)


def _order(obj: Object) -> int:
    return [NAMESPACES.kind, CRDS.kind, obj["kind"]].index(obj["kind"])


async def _create(api: ListWatch, obj: Object, created: Created) -> None:
    """Creates an object with its status. Raises `ApiError`."""
    kind = await api.kind_of(obj)
    metadata = obj["metadata"]
    if kind.namespaced and "namespace" not in metadata:
        metadata = {**metadata, "namespace": "default"}
    made = await api.create(kind, {**obj, "apiVersion": kind.api_version, "metadata": metadata})
    created(kind, made)
    if obj.get("status") and kind.has_status and kind != CRDS:
        await api.replace_status(kind, {**made, "status": obj["status"]})


async def _served(create: Callable[[], Awaitable[None]]) -> None:
    """Creates a custom resource. An API server needs a moment until it serves a new kind."""

    async def is_created() -> bool:
        try:
            await create()
        except ApiError as error:
            if error.status != _NOT_FOUND or error.message.startswith("namespaces "):
                raise
            return False
        return True

    if not await poll(is_created, _INTERVAL, ESTABLISHED_LIMIT):
        raise HarnessError(f"the API server does not serve a new kind after {ESTABLISHED_LIMIT:g} s")


async def _wait_until_established(api: ListWatch, name: str) -> None:
    async def established() -> bool:
        return _is_established(await api.get(CRDS, name))

    if not await poll(established, _INTERVAL, ESTABLISHED_LIMIT):
        what = f"CustomResourceDefinition {name} is not Established after {ESTABLISHED_LIMIT:g} s"
        raise HarnessError(what, "look at its conditions")


def _is_established(definition: Object) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any((one["type"], one["status"]) == ("Established", "True") for one in conditions)


async def _create_node(api: ListWatch, name: str, created: Created) -> None:
    try:
        created(NODES, await api.create(NODES, {"metadata": {"name": name}}))
    except ApiError as error:
        if error.reason != "AlreadyExists":  # a real kubelet has created it
            raise


def with_placeholders(value: Any, values: Mapping[str, str]) -> Any:
    """A JSON value with the placeholders in its texts replaced."""
    if isinstance(value, str):
        return filled(value, values)
    if isinstance(value, Mapping):
        found: Object = {key: with_placeholders(one, values) for key, one in value.items()}
        return found
    return [with_placeholders(one, values) for one in value] if isinstance(value, list | tuple) else value
