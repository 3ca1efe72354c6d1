"""Requests to a real API server by the official client: JSON in and out, errors as `ApiError`.

The official client sends them, with TLS, credentials and proxies. Objects stay plain JSON: the client's typed models
drop fields that they do not know, and take a second to import. Its `Watch` is not used. It reconnects whenever the
server ends a watch, without a pause, and its callers do not see that; ours list again. `ci/bench/client` shows both.
"""

import ipaddress
import json
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from kubernetes.aio.client import ApiException
from kubernetes.aio.dynamic import DynamicClient

from drahealth.fakes.cluster.access import Access
from drahealth.fakes.cluster.api import ApiError

CALL_TIMEOUT = 30.0
"""Timeout of a call, and of the connection of a watch, in seconds."""

_HEARTBEAT = 12.0
"""Seconds without a message after which a web socket sends a ping; the server must answer in half of that time. The
API server's own client waits longer; our streams can be reopened."""


class KubeConnection:
    """One API server, with credentials; `headers` are sent with each request, such as those of impersonation."""

    def __init__(self, access: Access, headers: Mapping[str, str] | None = None) -> None:
        self._access = access
        self._headers = dict(headers or {})
        self._streams: list[aiohttp.StreamReader] = []
        access.configuration.connection_pool_maxsize = 0  # no limit: each watch has a connection
        access.configuration.client_session_kwargs = {"trust_env": not is_loopback(access.host)}
        self._client = access.client()
        self._requests = DynamicClient(self._client)
        self._sockets: aiohttp.ClientSession | None = None

    async def call(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Any = None, type_: str = ""
    ) -> dict[str, Any]:
        """The JSON object of the answer. `ApiError` from the server, or 503 if it is unreachable.

        `type_` is the content type of the body, if it is that of a patch.
        """
        timeout = aiohttp.ClientTimeout(total=CALL_TIMEOUT)
        with self._reaching():
            async with await self._answer(method, path, timeout, query, body, type_) as response:
                text = await response.text()
        answer = _object(text)
        if answer is None:
            raise refusal(response.status, response.reason or "", answer, text)
        return answer

    async def lines(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[dict[str, Any], None]:
        """The JSON objects of a streamed answer; ends when the server ends it or stops."""
        async with aclosing(self.text_lines(path, query)) as found:
            async for line in found:
                yield json.loads(line)

    async def text_lines(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """The lines of a streamed answer, such as a log; ends when the server ends it or stops. Raises `ApiError`."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CALL_TIMEOUT)
        with self._reaching():
            response = await self._answer("GET", path, timeout, query)
        async with response:
            self._streams.append(response.content)
            try:
                while line := await _line(response):
                    yield line
            finally:
                self._streams.remove(response.content)

    async def websocket(self, path: str, query: Sequence[tuple[str, str]], protocols: Sequence[str]) -> Any:
        """An aiohttp web socket. `ApiError` from the server, or 503 if it is unreachable.

        It fails within 20 s after the server's last message.
        """
        if self._sockets is None:  # the official client ignores the proxy and the server's name for web sockets
            connector = aiohttp.TCPConnector(ssl=self._client.rest_client.ssl_context, limit=0)
            self._sockets = aiohttp.ClientSession(connector=connector, trust_env=not is_loopback(self._access.host))
        try:
            return await self._sockets.ws_connect(
                self._access.host + path,
                params=query,
                protocols=protocols,
                headers={**self._headers, **await self._access.headers()},
                max_msg_size=0,
                heartbeat=_HEARTBEAT,
                timeout=aiohttp.ClientWSTimeout(ws_close=2),
                proxy=self._access.proxy,
                server_hostname=self._access.server_name,
            )
        except aiohttp.WSServerHandshakeError as error:
            raise ApiError(
                error.status, _one_word(error.message), f"no web socket at {path}: {error.message}"
            ) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            why = f"cannot reach the API server {self._access.host}: {error or type(error).__name__}"
            raise ApiError(503, "ServiceUnavailable", why) from error

    async def text(self, path: str) -> str:
        """The server's text at a path without an object, such as /metrics. Raises `ApiError`."""
        timeout = aiohttp.ClientTimeout(total=CALL_TIMEOUT)
        with self._reaching():
            async with await self._answer("GET", path, timeout) as response:
                return await response.text()

    async def close(self) -> None:
        """Closes every connection. A reader of lines would not notice this otherwise."""
        for stream in self._streams:
            stream.feed_eof()
        await self._client.close()
        if self._sockets:
            await self._sockets.close()

    async def _answer(
        self,
        method: str,
        path: str,
        timeout: aiohttp.ClientTimeout,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        type_: str = "",
    ) -> aiohttp.ClientResponse:
        """The answer, whose body is not read yet. Raises `ApiError` if the server rejects the request."""
        try:
            answer: aiohttp.ClientResponse = await self._requests.request(
                method,
                path,
                body,
                query_params=list((query or {}).items()),
                header_params=dict(self._headers),
                content_type=type_,
                serialize=False,
                _request_timeout=timeout,
            )
        except ApiException as error:
            text = error.body or ""
            raise refusal(error.status, error.reason or "", _object(text), text) from None
        return answer

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            why = f"cannot reach the API server {self._access.host}: {error or type(error).__name__}"
            raise ApiError(503, "ServiceUnavailable", why) from error


def is_loopback(host: str) -> bool:
    """Whether the URL's address is the loopback address; kubectl, like all Go programs, uses no proxy for it."""
    name = urlsplit(host).hostname or ""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def refusal(status: int, reason: str, answer: Mapping[str, Any] | None, text: str) -> ApiError:
    """An `ApiError` from the server's `Status` object, or from the HTTP status without one."""
    if answer is not None and answer.get("kind") == "Status":
        code = answer.get("code") or status
        return ApiError(code, answer.get("reason") or _one_word(reason), answer.get("message") or text)
    return ApiError(status, _one_word(reason), text.strip()[:500] or "no message")


def _one_word(reason: str) -> str:
    """The HTTP phrase in the form of an API reason."""
    return reason.replace(" ", "") or "Unknown"


async def _line(response: aiohttp.ClientResponse) -> bytes:
    try:
        return await response.content.readline()
    except (aiohttp.ClientError, OSError, RuntimeError):  # RuntimeError: the connection was closed here
        return b""


def _object(text: str) -> dict[str, Any] | None:
    try:
        answer = json.loads(text)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None
