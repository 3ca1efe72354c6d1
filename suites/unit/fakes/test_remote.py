"""Drivers at the other end of a stream, with an interrupted or invalid stream."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from drahealth.fakes.control.remote import ControlFailed, RemoteDriver, RemoteHost, clock_offset
from drahealth.fakes.control.server import ControlServer
from drahealth.fakes.control.wire import LINE_LIMIT, DriverLine, Writer
from drahealth.proto.events import Record, Registered, StreamOpened
from drahealth.proto.values import DeviceHealth, Health
from drahealth.suites.unit.endings import PATIENCE
from drahealth.suites.unit.fakes.driver_rig import DRIVER, Rig, make_plugin

ATTACHED = b'{"attached": {"now": 0.0, "taken": 0}}\n'
OPENED = {"event": "stream-opened", "driver": "d", "instance": "", "stream": "d#1", "health_api": "f"}


async def host_that_hears(rig: Rig, attached: bytes, said: bytes, limit: int = LINE_LIMIT) -> RemoteHost:
    """A host whose server sends one text after the attach line, another after the first call, and then nothing."""
    ours, theirs = socket.socketpair()
    ends = await asyncio.open_connection(sock=ours, limit=limit)
    reader, writer = await asyncio.open_connection(sock=theirs)

    async def speak() -> None:
        await reader.readline()
        writer.write(attached)
        await reader.readline()
        writer.write(said)
        writer.close()

    async def connect() -> tuple[asyncio.StreamReader, Writer]:
        return ends

    speaking = asyncio.create_task(speak())
    rig.on_close(lambda: asyncio.wait([speaking]))
    host = RemoteHost(connect)
    rig.on_close(host.close)
    return host


STRANGE = "state: the driver sent an invalid reply: "


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        (b"", "state: the driver is gone"),
        (b'{"seq": 1, "id": 9, "result": null}\n', "state: the driver is gone"),
        (b'{"seq": 1, "id": 1, "error": "no"}\n', "state: no"),
        (b'{"seq": 0, "id": null, "error": "a line has"}\n', "state: a line has"),
        (b"Traceback (most recent call last):\n", f"{STRANGE}'Traceback (most recent call last):'"),
        (b"[]\n", f"{STRANGE}'[]'"),
        (b'{"result": 1}\n', STRANGE),
        (b'{"seq": 1, "at": 1, "event": {"event": "odd"}}\n', STRANGE),
        (b"[" * 100_000 + b"\n", STRANGE),
        (b"x" * 2000 + b"\n", "state: the driver sent a line over the limit"),
    ],
    ids=range(10),
)
async def test_invalid_answer_fails_the_call_with_a_short_error(
    rig: Rig, answers: bytes, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    limit = 1000 if answers.startswith(b"x") else LINE_LIMIT
    driver = RemoteDriver(await host_that_hears(rig, ATTACHED, answers, limit), 1)
    with pytest.raises(ControlFailed) as failed:
        await asyncio.wait_for(driver.state(), PATIENCE)
    assert str(failed.value).startswith(error)
    assert (len(str(failed.value)) < 400, caplog.records) == (True, [])


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"exec failed\n", f"{STRANGE}'exec failed'"),
        (b'{"seq": 0, "id": null, "error": "the drivers are lost"}\n', "state: the drivers are lost"),
        (b'{"attached": {}}\n', f"{STRANGE}"),
    ],
)
async def test_invalid_reply_to_attach_fails_every_call(rig: Rig, answer: bytes, error: str) -> None:
    driver = RemoteDriver(await host_that_hears(rig, answer, b""), 1)
    for call in (driver.state, driver.state):
        with pytest.raises(ControlFailed) as failed:
            await asyncio.wait_for(call(), PATIENCE)
        assert str(failed.value).startswith(error)


async def test_calls_to_a_driver_that_is_gone_fail_at_once(rig: Rig) -> None:
    driver = RemoteDriver(await host_that_hears(rig, ATTACHED, b""), 1)
    for call in (driver.state, driver.state, driver.stop):
        with pytest.raises(ControlFailed):
            await asyncio.wait_for(call(), PATIENCE)
    assert driver.host.problem


async def test_call_over_the_line_limit_fails_and_the_next_succeeds(rig: Rig) -> None:
    remote = await rig.there()
    with pytest.raises(ControlFailed, match=f"^stream_send: .*{LINE_LIMIT}"):
        await remote.stream_send("00" * (LINE_LIMIT // 2))
    assert not (await remote.state()).running


async def test_ten_thousand_devices_fit_into_a_line(rig: Rig) -> None:
    remote = await rig.there()
    await remote.report([DeviceHealth("node-a", f"gpu-{n}", Health.HEALTHY, "x" * 100) for n in range(10_000)])


async def test_creator_of_a_driver_receives_its_events(rig: Rig) -> None:
    first = await rig.there()
    await first.start()
    await rig.notify_registration()
    await first.state()
    assert rig.happened(Registered) == [Registered(DRIVER, "", ok=True)]


@pytest.mark.parametrize(
    ("there", "offset"),
    [(10.0, 0.0), (10.1, 0.0), (10.2, 0.0), (9.9, 0.2), (1010.1, -1000.0), (0.1, 10.0)],
)
def test_clock_offset_is_zero_for_times_within_the_call(there: float, offset: float) -> None:
    assert round(clock_offset(before=10.0, there=there, after=10.2), 6) == offset


def test_events_come_at_our_own_time() -> None:
    said = DriverLine(seq=1, driver=7, at=12.5, event=OPENED)
    assert said.record(2.5) == Record(15.0, StreamOpened("d", "", "d#1", "f"))


# -- connections that are lost


class Line:
    """A connection that can be cut."""

    def __init__(self, rig: Rig, server: ControlServer) -> None:
        self.rig = rig
        self.server = server
        self.writers: list[asyncio.StreamWriter] = []
        self.refusals = 0

    async def __call__(self) -> tuple[asyncio.StreamReader, Writer]:
        if self.writers and self.refusals:
            self.refusals -= 1
            raise ConnectionRefusedError("not yet")
        reader, writer = await self.rig.connect(self.server)
        self.writers.append(writer)
        return reader, writer

    def cut(self) -> None:
        self.writers[-1].transport.abort()


@pytest.fixture
def line(rig: Rig) -> Line:
    server = ControlServer(lambda _, observe: rig.here(observe=observe), linger=60, make_plugin=make_plugin)
    rig.on_close(server.close)
    return Line(rig, server)


async def test_a_driver_outlives_a_lost_connection_and_nothing_is_lost(rig: Rig, line: Line) -> None:
    events: list[Any] = []
    host = RemoteHost(line, patience=5)
    rig.on_close(host.close)
    driver = await host.make(rig.options(), lambda record: events.append(record.what))
    await driver.start()
    line.refusals = 2
    line.cut()
    await rig.notify_registration()
    async with asyncio.timeout(PATIENCE):
        await driver.wait_registered()
    assert (events, len(line.writers)) == ([Registered(DRIVER, "", ok=True)], 2)


async def test_calls_under_way_are_answered_over_the_next_connection(rig: Rig, line: Line) -> None:
    host = RemoteHost(line, patience=5)
    rig.on_close(host.close)
    driver = await host.make(rig.options(), lambda _: None)
    await driver.start()
    waiting = asyncio.create_task(driver.wait_registered())
    await driver.state()
    line.cut()
    await rig.notify_registration()
    await asyncio.wait_for(waiting, PATIENCE)
    assert (await driver.state()).registered


async def test_calls_fail_if_the_connection_is_not_restored(rig: Rig, line: Line) -> None:
    host = RemoteHost(line, patience=0.5)
    rig.on_close(host.close)
    driver = await host.make(rig.options(), lambda _: None)
    line.refusals = 10**6
    line.cut()
    with pytest.raises(ControlFailed, match=r"^state: .*not yet$"):
        await asyncio.wait_for(driver.state(), PATIENCE)


async def test_failed_connection_is_reported_with_its_reason(rig: Rig) -> None:
    async def nowhere() -> tuple[asyncio.StreamReader, Writer]:
        raise RuntimeError("there is no pod of the driver on node-a")

    make: Callable[[RemoteHost], Awaitable[Any]] = lambda host: host.make(rig.options(), lambda _: None)  # noqa: E731
    host = RemoteHost(nowhere)
    rig.on_close(host.close)
    with pytest.raises(ControlFailed, match="make: there is no pod of the driver on node-a"):
        await asyncio.wait_for(make(host), PATIENCE)
