"""Requests to a real API server by the official client: JSON in and out, errors as `ApiError`.

The official client sends them, with TLS, credentials and proxies. Objects stay plain JSON: the client's typed models
drop fields that they do not know, and take a second to import. Its `Watch` is not used. It reconnects whenever the
server ends a watch, without a pause, and its callers do not see that; ours list again. `ci/bench/client` shows both.
"""

import asyncio
import ipaddress
import json
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from kubernetes.aio import client, config
from kubernetes.aio.client import ApiException
from kubernetes.aio.dynamic import DynamicClient

from drahealth.fakes.cluster.access import Access
from drahealth.fakes.cluster.api import ApiError
from drahealth.fakes.hints import near
from drahealth.fakes.program.user_files import FileError, documents
from drahealth.proto.quoting import one_line

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

    @property
    def host(self) -> str:
        """The URL of the API server."""
        return self._access.host

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


# Access to an API server from a kubeconfig. The official client reads it and refreshes credentials.


async def access(path: Path, context: str | None) -> Access:
    """The access from a kubeconfig. ValueError, with the path, if it has no server to connect to."""
    found, text = Access(client.Configuration()), ""
    try:
        text = _text(path)
        await config.load_kube_config(
            config_file=str(path), context=context, client_configuration=found.configuration, persist_config=False
        )
        found.tls()
    except OSError as error:
        raise ValueError(f"kubeconfig {path}: {error.strerror or error}") from None
    except Exception as error:  # the loader does not catch errors of its parser and credential plugins
        raise ValueError(f"kubeconfig {path}: {(text and _why(text, context)) or one_line(str(error))}") from error
    return found


def _text(path: Path) -> str:
    """The file's text. The loader would report a missing or empty file as invalid content."""
    text = path.read_text()
    if not text.strip():
        raise ValueError("the file is empty")
    return text


def _why(text: str, context: str | None) -> str:
    """The reason why the loader rejects the file, for its author; empty if only the loader knows it."""
    try:
        (document,) = documents(text, "")
    except FileError as error:
        return str(error.problems[0])
    except ValueError:
        return "it must have one YAML document"
    if not isinstance(document.data, dict):
        return "it must be a kubeconfig with `apiVersion: v1` and `kind: Config`"
    name = context or document.data.get("current-context")
    contexts = _names(document.data.get("contexts"))
    if not contexts:
        return "it has no contexts"
    if not name:
        return f"it has no current-context; {near('', contexts)}"
    return f"it has no context {name!r}; {near(str(name), contexts)}" if name not in contexts else ""


def _names(entries: object) -> list[str]:
    named = entries if isinstance(entries, list) else []
    return [entry["name"] for entry in named if isinstance(entry, dict) and isinstance(entry.get("name"), str)]


# A program that runs in a container, over the API server: its standard streams as a connection.
#
# The web socket of `pods/exec` (subprotocol v5.channel.k8s.io): each message starts with the number of its channel.
# Source: KEP-4006; k8s.io/apimachinery, remotecommand.


_STDIN, _STDOUT, _STDERR, _ERROR = range(4)
_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_MAX_STDERR = 2000
"""Maximum bytes of standard error to keep."""
_CHUNK = 512 * 1024
"""Maximum bytes of one message; servers have a limit."""


class ExecStream:
    """Written data goes to the program; its output is on `reader`. Implements `wire.Writer`."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, limit: int, what: str) -> None:
        self.reader = _Output(limit=limit)
        self.stderr = ""
        """The last part of the program's standard error."""
        self.error = ""
        """The server's reason for the end; empty after success, after `close`, or while the program runs."""
        self._what = what
        self._has_end = False
        self._socket = socket
        self._outgoing: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._sending = asyncio.create_task(self._send(), name="exec, input")
        self._receiving = asyncio.create_task(self._receive(), name="exec, output")

    @classmethod
    async def open(
        cls,
        connection: KubeConnection,
        namespace: str,
        pod: str,
        command: Sequence[str],
        *,
        container: str = "",
        limit: int = 2**16,
    ) -> "ExecStream":
        """Starts the program. Raises `ApiError` if the server rejects the call or is unreachable.

        If the program fails, `reader.readline` raises ConnectionError with the reason after the last line.
        """
        query = [("stdin", "true"), ("stdout", "true"), ("stderr", "true")]
        query += [("container", container)] if container else []
        query += [("command", word) for word in command]
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/exec"
        what = f"{' '.join(command)} in pod {pod}"
        return cls(await connection.websocket(path, query, _PROTOCOLS), limit, what)

    def write(self, data: bytes) -> None:
        for start in range(0, len(data), _CHUNK):
            self._outgoing.put_nowait(data[start : start + _CHUNK])

    def is_closing(self) -> bool:
        return self._receiving.done() or self._socket.closed

    def close(self) -> None:
        """Ends the connection, and the program's input with it."""
        self._has_end = True
        self._outgoing.put_nowait(None)

    async def wait_closed(self) -> None:
        """Returns when all data has been sent and the connection has ended."""
        await asyncio.gather(self._sending, self._receiving, return_exceptions=True)

    async def finished(self) -> None:
        """Returns when the program has ended."""
        await asyncio.wait([self._receiving])

    async def _send(self) -> None:
        with suppress(aiohttp.ClientError, OSError):
            while data := await self._outgoing.get():
                await self._socket.send_bytes(bytes([_STDIN]) + data)
        await self._socket.close()

    async def _receive(self) -> None:
        try:
            async for message in self._socket:
                if message.type is aiohttp.WSMsgType.BINARY and message.data:
                    self._take(message.data[0], message.data[1:])
                elif message.type is aiohttp.WSMsgType.ERROR:
                    self.error = self.error or str(message.data)
        except (aiohttp.ClientError, OSError) as error:
            self.error = self.error or str(error)
        finally:
            if not self._has_end:  # a server always reports the end
                self.error = self.error or "the connection was lost"
            self.reader.why = self._why()
            self.reader.feed_eof()
            self._outgoing.put_nowait(None)

    def _why(self) -> str:
        last = (self.stderr.strip().splitlines() or [""])[-1]
        return f"{self._what}: {f'{last} ({self.error})' if last else self.error}" if self.error else ""

    def _take(self, channel: int, data: bytes) -> None:
        if channel == _STDOUT:
            self.reader.feed_data(data)
        elif channel == _STDERR:
            self.stderr = (self.stderr + data.decode(errors="replace"))[-_MAX_STDERR:]
        elif channel == _ERROR:
            self._has_end = True
            self.error = _refusal(data)


class _Output(asyncio.StreamReader):
    """The program's output; after its last line it gives the reason for the end."""

    why = ""

    async def readline(self) -> bytes:
        line = await super().readline()
        if not line and self.why:
            raise ConnectionError(self.why)
        return line


async def execute(
    connection: KubeConnection, namespace: str, pod: str, command: Sequence[str], *, container: str = ""
) -> str:
    """Runs a program to its end; returns its output. Raises `ApiError`, also if the program fails."""
    stream = await ExecStream.open(connection, namespace, pod, command, container=container)
    try:
        output = await stream.reader.read()
        await stream.finished()
    finally:
        stream.close()
        await stream.wait_closed()
    if stream.error:
        raise ApiError(
            500, "InternalError", f"{' '.join(command)} in pod {pod}: {stream.stderr.strip() or stream.error}"
        )
    return output.decode(errors="replace")


def _refusal(data: bytes) -> str:
    """The server's `Status` at the end; None after success."""
    try:
        status: dict[str, Any] = json.loads(data)
        return "" if status.get("status") == "Success" else str(status.get("message") or status)
    except (ValueError, AttributeError):
        return data.decode(errors="replace")
