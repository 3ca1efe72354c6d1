"""A program in a container over a web socket: what comes, what goes, and how it ends."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import WSMsgType, web

from drahealth.fakes.api import ApiError
from drahealth.fakes.clients.access import Access
from drahealth.fakes.clients.exec_stream import ExecStream, execute
from drahealth.fakes.clients.kube_connection import KubeConnection

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

    async def headers() -> dict[str, str]:
        return {}

    app = web.Application()
    app.router.add_get("/api/v1/namespaces/ns/pods/pod/exec", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    connection = KubeConnection(Access(f"http://127.0.0.1:{runner.addresses[0][1]}", headers))
    try:
        yield connection
    finally:
        await connection.close()
        await runner.cleanup()


async def echoes(socket: web.WebSocketResponse) -> None:
    async for message in socket:
        if message.type is WSMsgType.BINARY:
            await socket.send_bytes(b"\x01" + message.data[1:])


async def test_bytes_go_both_ways_until_it_is_closed() -> None:
    async with server_that(echoes) as connection:
        stream = await ExecStream.open(connection, "ns", "pod", ["cat"])
        stream.write(b"one\ntwo")
        stream.write(b"\n")
        assert [await stream.reader.readline() for _ in range(2)] == [b"one\n", b"two\n"]
        assert not stream.is_closing()
        stream.close()
        await stream.wait_closed()
        assert (stream.is_closing(), await stream.reader.read()) == (True, b"")


async def test_more_than_a_message_holds_comes_through_whole() -> None:
    async with server_that(echoes) as connection:
        stream = await ExecStream.open(connection, "ns", "pod", ["cat"], limit=2**22)
        stream.write(b"x" * 2**20 + b"\n")
        assert await stream.reader.readline() == b"x" * 2**20 + b"\n"
        stream.close()
        await stream.wait_closed()


async def test_a_command_is_asked_for_in_words_and_its_output_is_the_answer() -> None:
    async def answers(socket: web.WebSocketResponse) -> None:
        for message in (b"\x01", b"\x01out", b"\x02err", SUCCESS):
            await socket.send_bytes(message)

    asked: list[str] = []
    async with server_that(answers, asked) as connection:
        assert await execute(connection, "ns", "pod", ["echo", "a b&c"], container="main") == "out"
    streams = "stdin=true&stdout=true&stderr=true"
    assert asked == [f"/api/v1/namespaces/ns/pods/pod/exec?{streams}&container=main&command=echo&command=a+b%26c"]


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ((b"\x02no such file\n", FAILURE), "sh -c x in pod pod: no such file"),
        ((FAILURE,), "sh -c x in pod pod: command terminated with exit code 3"),
        ((b"\x03strange",), "sh -c x in pod pod: strange"),
    ],
)
async def test_a_command_that_fails_says_why(messages: tuple[bytes, ...], reason: str) -> None:
    async def answers(socket: web.WebSocketResponse) -> None:
        for message in messages:
            await socket.send_bytes(message)

    async with server_that(answers) as connection:
        with pytest.raises(ApiError) as refused:
            await execute(connection, "ns", "pod", ["sh", "-c", "x"])
    assert refused.value.message == reason


async def test_a_server_that_gives_no_web_socket_is_a_refusal() -> None:
    async with server_that(echoes) as connection:
        with pytest.raises(ApiError) as refused:
            await ExecStream.open(connection, "ns", "other", ["cat"])
    assert refused.value.status == 404


async def test_a_server_that_is_away_is_out_of_reach() -> None:
    async with server_that(echoes) as connection:
        pass
    connection = KubeConnection(connection._access)
    with pytest.raises(ApiError, match="cannot reach the API server"):
        await ExecStream.open(connection, "ns", "pod", ["cat"])
    await connection.close()
