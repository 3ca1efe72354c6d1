"""HTTP to a real API server as a kubeconfig describes it: JSON in and out, refusals as `ApiError`.

The official client's loader reads the kubeconfig and keeps its credentials fresh; the requests are made here, since the
client's own way to make a plain one differs from release to release.
"""

import json
import ssl
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
from kubernetes.aio import client, config

from drahealth.fakes.api import ApiError

CALL_TIMEOUT = 30.0
"""Seconds for a whole call, and for the connection of a watch."""

_LINE_LIMIT = 2**21
"""Half of what one line of a watch may have, in bytes; objects have up to 1.5 MiB."""


class KubeConnection:
    """One API server, with credentials."""

    def __init__(self, configuration: client.Configuration) -> None:
        self._configuration = configuration
        self._streams: list[aiohttp.StreamReader] = []
        is_tls = configuration.host.startswith("https:")
        connector = aiohttp.TCPConnector(ssl=_tls(configuration) if is_tls else True, limit=0)
        self._session = aiohttp.ClientSession(connector=connector, trust_env=True, read_bufsize=_LINE_LIMIT)

    @classmethod
    async def from_kubeconfig(cls, path: Path, context: str | None) -> "KubeConnection":
        """ValueError, with the path, for a kubeconfig that says no server to connect to."""
        configuration = client.Configuration()
        try:
            _check_readable(path)
            await config.load_kube_config(
                config_file=str(path), context=context, client_configuration=configuration, persist_config=False
            )
            return cls(configuration)
        except Exception as error:  # the loader lets through whatever its parser and credential plugins raise
            raise ValueError(f"kubeconfig {path}: {error}") from error

    async def call(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Any = None
    ) -> dict[str, Any]:
        """The answer's JSON object. `ApiError` as the server refuses, or 503 where it cannot be reached."""
        timeout = aiohttp.ClientTimeout(total=CALL_TIMEOUT)
        with self._reaching():
            async with self._request(method, path, query, body, await self._headers(), timeout) as response:
                text = await response.text()
        answer = _object(text)
        if response.status >= 400 or answer is None:
            raise refusal(response.status, response.reason or "", answer, text)
        return answer

    async def lines(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[dict[str, Any], None]:
        """The JSON objects of an answer that goes on; ends when the server ends it or goes away."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CALL_TIMEOUT)
        with self._reaching():
            response = await self._request("GET", path, query, None, await self._headers(), timeout)
        async with response:
            if response.status >= 400:
                text = await response.text()
                raise refusal(response.status, response.reason or "", _object(text), text)
            self._streams.append(response.content)
            try:
                while line := await _line(response):
                    yield json.loads(line)
            finally:
                self._streams.remove(response.content)

    async def close(self) -> None:
        """Closes every connection. Who reads lines would not notice this by itself."""
        for stream in self._streams:
            stream.feed_eof()
        await self._session.close()

    def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Any,
        headers: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,
    ) -> Any:
        return self._session.request(
            method,
            self._configuration.host + path,
            params=query,
            json=body,
            headers=headers,
            timeout=timeout,
            proxy=self._configuration.proxy,
            server_hostname=self._configuration.tls_server_name,
        )

    async def _headers(self) -> dict[str, str]:
        settings = (await self._configuration.auth_settings()).values()
        credentials = {one["key"]: one["value"] for one in settings if one["in"] == "header"}
        return {"Accept": "application/json", **credentials}

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            why = f"cannot reach the API server {self._configuration.host}: {error or type(error).__name__}"
            raise ApiError(503, "ServiceUnavailable", why) from error


def refusal(status: int, reason: str, answer: Mapping[str, Any] | None, text: str) -> ApiError:
    """An `ApiError` from the server's `Status` object, or from the bare HTTP answer where it gives none."""
    if answer is not None and answer.get("kind") == "Status":
        code = answer.get("code") or status
        return ApiError(code, answer.get("reason") or _one_word(reason), answer.get("message") or text)
    return ApiError(status, _one_word(reason), text.strip()[:500] or "no explanation")


def _one_word(reason: str) -> str:
    """The phrase of HTTP in the manner of the API's reasons."""
    return reason.replace(" ", "") or "Unknown"


def _check_readable(path: Path) -> None:
    """The loader takes a file that is not there, or is empty, for one with strange contents."""
    if not path.read_text().strip():
        raise ValueError("the file is empty")


async def _line(response: aiohttp.ClientResponse) -> bytes:
    try:
        return await response.content.readline()
    except (aiohttp.ClientError, OSError, RuntimeError):  # RuntimeError: this side has closed the connection
        return b""


def _object(text: str) -> dict[str, Any] | None:
    try:
        answer = json.loads(text)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None


def _tls(configuration: client.Configuration) -> ssl.SSLContext:
    """As kubectl does it: the CA of the kubeconfig, client certificates, and no stricter than Go about certificates."""
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    return context
