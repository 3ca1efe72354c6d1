"""A program that runs in a container, over the API server: its standard streams as a connection.

The web socket of `pods/exec` (subprotocol v5.channel.k8s.io): each message starts with the number of its channel.
Source: KEP-4006; k8s.io/apimachinery, remotecommand.
"""

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import aiohttp

from drahealth.fakes.cluster.api import ApiError
from drahealth.fakes.cluster.kube_connection import KubeConnection

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
