"""A program in a container over a web socket: input, output and exit."""

import asyncio

import pytest
from aiohttp import WSMsgType, web

from drahealth.fakes.cluster.api import ApiError
from drahealth.fakes.cluster.kube_connection import ExecStream, KubeConnection, execute
from drahealth.suites.unit.endings import PATIENCE
from drahealth.suites.unit.expected_errors import api_error
from drahealth.suites.unit.fakes.exec_server import FAILURE, SUCCESS, server_that


async def echoes(socket: web.WebSocketResponse) -> None:
    async for message in socket:
        if message.type is WSMsgType.BINARY:
            await socket.send_bytes(b"\x01" + message.data[1:])


async def test_bytes_flow_in_both_directions_until_close() -> None:
    async with server_that(echoes) as connection:
        stream = await ExecStream.open(connection, "ns", "pod", ["cat"])
        stream.write(b"one\ntwo")
        stream.write(b"\n")
        assert [await stream.reader.readline() for _ in range(2)] == [b"one\n", b"two\n"]
        assert not stream.is_closing()
        stream.close()
        await stream.wait_closed()
        assert (stream.is_closing(), await stream.reader.read()) == (True, b"")


async def test_data_larger_than_a_message_arrives_complete() -> None:
    async with server_that(echoes) as connection:
        stream = await ExecStream.open(connection, "ns", "pod", ["cat"], limit=2**22)
        stream.write(b"x" * 2**20 + b"\n")
        assert await stream.reader.readline() == b"x" * 2**20 + b"\n"
        stream.close()
        await stream.wait_closed()


async def test_execute_returns_the_output_of_a_command() -> None:
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
async def test_failed_command_raises_its_reason(messages: tuple[bytes, ...], reason: str) -> None:
    async def answers(socket: web.WebSocketResponse) -> None:
        for message in messages:
            await socket.send_bytes(message)

    async with server_that(answers) as connection:
        with pytest.raises(ApiError) as refused:
            await execute(connection, "ns", "pod", ["sh", "-c", "x"])
    assert refused.value.message == reason


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ((b"\x02Traceback\nNo module named x\n", FAILURE), "No module named x (command terminated with exit code 3)"),
        ((FAILURE,), "command terminated with exit code 3"),
        ((b"\x02a warning\n",), "a warning (the connection was lost)"),
    ],
)
async def test_readline_raises_the_reason_of_a_failed_end(messages: tuple[bytes, ...], why: str) -> None:
    async def answers(socket: web.WebSocketResponse) -> None:
        for message in (b"\x01last\n", *messages):
            await socket.send_bytes(message)

    async with server_that(answers) as connection:
        stream = await ExecStream.open(connection, "ns", "pod", ["cat", "x"])
        assert await stream.reader.readline() == b"last\n"
        with pytest.raises(ConnectionError) as ended:
            await stream.reader.readline()
    assert str(ended.value) == f"cat x in pod pod: {why}"


async def test_readline_returns_nothing_after_success() -> None:
    async def answers(socket: web.WebSocketResponse) -> None:
        for message in (b"\x02a warning\n", SUCCESS):
            await socket.send_bytes(message)

    async with server_that(answers) as connection:
        stream = await ExecStream.open(connection, "ns", "pod", ["cat"])
        assert (await stream.reader.readline(), stream.error) == (b"", "")


async def test_lost_connection_is_an_error() -> None:
    async def answers(socket: web.WebSocketResponse) -> None:
        await socket.send_bytes(b"\x01half of it")

    async with server_that(answers) as connection:
        with pytest.raises(ApiError, match=r": cat in pod pod: the connection was lost$"):
            await execute(connection, "ns", "pod", ["cat"])


async def test_unresponsive_server_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drahealth.fakes.cluster.kube_connection._HEARTBEAT", 0.1)
    noticed = asyncio.Event()

    async def is_deaf(socket: web.WebSocketResponse) -> None:
        await noticed.wait()

    async with server_that(is_deaf) as connection:
        stream = await ExecStream.open(connection, "ns", "pod", ["cat"])
        with pytest.raises(ConnectionError, match=r"^cat in pod pod: No PONG received"):
            await asyncio.wait_for(stream.reader.readline(), PATIENCE)
        noticed.set()


async def test_server_without_web_socket_is_an_api_error() -> None:
    async with server_that(echoes) as connection:
        with pytest.raises(ApiError) as refused:
            await ExecStream.open(connection, "ns", "other", ["cat"])
    assert refused.value.status == 404


async def test_unreachable_server_is_an_api_error() -> None:
    async with server_that(echoes) as connection:
        pass
    connection = KubeConnection(connection._access)
    with api_error(503, "ServiceUnavailable"):
        await ExecStream.open(connection, "ns", "pod", ["cat"])
    await connection.close()
