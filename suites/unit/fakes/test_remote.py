"""The control surface as JSON lines: what the two ends do with what is not as it should be."""

import asyncio
import json
import socket
from collections.abc import Callable
from typing import Any

import pytest

from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.fakes.hardware.remote import CALLS, LINE_LIMIT, ControlFailed, ControlServer, RemoteDriver
from drahealth.proto.events import Record, Registered, StreamOpened
from drahealth.proto.values import DeviceHealth, Health
from drahealth.suites.unit.fakes.driver_rig import DRIVER, Rig

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
async def driver(rig: Rig) -> FakeDriver:
    return rig.here()


@pytest.fixture
async def ends(rig: Rig, driver: FakeDriver) -> Ends:
    """A plain client's end of a connection to a driver."""
    return await rig.connect(ControlServer(driver))


async def answer(ends: Ends, request: Any) -> Any:
    """The answer to one line."""
    reader, writer = ends
    writer.write((request if isinstance(request, bytes) else json.dumps(request).encode()) + b"\n")
    async with asyncio.timeout(5):
        return json.loads(await reader.readline())


# -- the driver's end


async def test_a_call_is_answered_with_its_number_and_result(ends: Ends) -> None:
    state = {"running": False, "registered": False, "registration_error": "", "streams": 0, "streams_opened": 0}
    assert await answer(ends, {"id": 7, "call": "state"}) == {"id": 7, "result": {**state, "prepared": []}}
    assert await answer(ends, {"id": "a", "call": "hush", "args": {"quiet": True}}) == {"id": "a", "result": None}


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        ({"id": 1, "call": "fly"}, f"there is no call 'fly'; there are {', '.join(CALLS)}"),
        ({"id": 1, "call": "close"}, "there is no call 'close'"),
        ({"id": 1, "call": ["state"]}, "there is no call ['state']"),
        ({"id": 1}, "there is no call None"),
        ({"id": 1, "call": "state", "args": [1]}, "args are an object, not [1]"),
        ({"id": 1, "call": "hush"}, "quiet: Missing required argument"),
        ({"id": 1, "call": "hush", "args": {"quiet": "perhaps"}}, "quiet: Input should be a valid boolean"),
        ({"id": 1, "call": "hush", "args": {"quiet": True, "loud": 1}}, "loud: Unexpected keyword argument"),
        (
            {"id": 1, "call": "set_health", "args": {"device": "gpu-0", "health": "Sick"}},
            "health: Input should be 'Healthy'",
        ),
        (
            {"id": 1, "call": "set_health", "args": {"device": "gpu-9", "health": "Healthy"}},
            f"driver {DRIVER} has no device",
        ),
        ({"id": 1, "call": "report", "args": {"devices": [{"pool": "p"}]}}, "devices.0.device: "),
    ],
)
async def test_a_call_that_is_wrong_is_answered_in_words(ends: Ends, request_: Any, error: str) -> None:
    refused = await answer(ends, request_)
    assert (refused["id"], refused["error"][: len(error)]) == (1, error)


@pytest.mark.parametrize("line", [b"{", b"", b"7", b"[]", b"\xff", b"[" * 100_000, b'{"id": NaN'], ids=range(7))
async def test_a_line_that_is_no_call_is_answered_too_and_the_next_is_taken(ends: Ends, line: bytes) -> None:
    refused = await answer(ends, line)
    assert (refused["id"], refused["error"][:30]) == (None, "a call is a JSON object with i")
    assert (await answer(ends, {"id": 2, "call": "state"}))["id"] == 2


async def test_a_line_that_is_too_long_is_named_and_ends_the_connection(rig: Rig, driver: FakeDriver) -> None:
    ends = await rig.connect(ControlServer(driver), limit=1000)
    refused = await answer(ends, {"id": 1, "call": "send_raw", "args": {"payload": "00" * 1000}})
    assert refused == {"id": None, "error": f"a line has at most {LINE_LIMIT} bytes"}
    assert await ends[0].read() == b""


async def test_a_failure_that_nobody_foresaw_is_answered(rig: Rig) -> None:
    class Broken(FakeDriver):
        async def stop(self) -> None:
            raise ZeroDivisionError("of all things")

    ends = await rig.connect(ControlServer(Broken(rig.here().options, rig.api)))
    assert await answer(ends, {"id": 1, "call": "stop"}) == {"id": 1, "error": "ZeroDivisionError: of all things"}


async def test_a_long_call_holds_up_no_other_and_ends_with_its_connection(rig: Rig, driver: FakeDriver) -> None:
    await driver.start()
    reader, writer = await rig.connect(ControlServer(driver))
    writer.write(b'{"id": 1, "call": "wait_registered"}\n')
    assert (await answer((reader, writer), {"id": 2, "call": "state"}))["id"] == 2
    writer.close()
    calls = {task for task in asyncio.all_tasks() if task.get_name() == "control call"}
    assert [task.cancelled() for task in (await asyncio.wait(calls, timeout=5))[0]] == [True]


async def test_events_go_to_everybody_who_is_connected(rig: Rig) -> None:
    first = await rig.there()
    await first.start()
    await rig.tell()
    await first.state()
    assert rig.happened(Registered) == [Registered(DRIVER, "", ok=True)]


# -- the other end


Observe = Callable[[Record], None]


async def driver_that_says(
    rig: Rig, answers: bytes, observe: Observe = lambda _: None, limit: int = LINE_LIMIT
) -> RemoteDriver:
    """A remote driver whose other end says just this after the first call, and no more."""
    ours, theirs = socket.socketpair()
    remote = RemoteDriver(*await asyncio.open_connection(sock=ours, limit=limit), observe)
    reader, writer = await asyncio.open_connection(sock=theirs)

    async def speak() -> None:
        await reader.readline()
        writer.write(answers)
        writer.close()

    speaking = asyncio.create_task(speak())
    rig.on_close(lambda: asyncio.wait([speaking]))
    rig.on_close(remote.close)
    return remote


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        (b"", "state: the driver is gone"),
        (b'{"id": 9, "result": null}\n', "state: the driver is gone"),
        (b'{"id": 1, "error": "no"}\n', "state: no"),
        (b'{"id": null, "error": "a line has"}\n', "state: a line has"),
        (
            b"Traceback (most recent call last):\n",
            "state: the driver said what is no answer: 'Traceback (most recent call last):'",
        ),
        (b"[]\n", "state: the driver said what is no answer: '[]'"),
        (b'{"result": 1}\n', "state: the driver said what is no answer: "),
        (b'{"at": 1, "event": {"event": "odd"}}\n', "state: the driver said what is no answer: "),
        (b"[" * 100_000 + b"\n", "state: the driver said what is no answer: "),
        (b"x" * 2000 + b"\n", "state: the driver said a line that is too long to read"),
    ],
    ids=range(10),
)
async def test_what_is_no_answer_fails_the_call_in_words(
    rig: Rig, answers: bytes, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    limit = 1000 if answers.startswith(b"x") else LINE_LIMIT
    remote = await driver_that_says(rig, answers, limit=limit)
    with pytest.raises(ControlFailed) as failed:
        await asyncio.wait_for(remote.state(), timeout=5)
    assert str(failed.value).startswith(error)
    assert (len(str(failed.value)) < 400, caplog.records) == (True, [])


async def test_calls_to_a_driver_that_is_gone_fail_at_once(rig: Rig) -> None:
    remote = await driver_that_says(rig, b"")
    for call in (remote.state, remote.state, remote.stop):
        with pytest.raises(ControlFailed, match="the driver is gone"):
            await asyncio.wait_for(call(), timeout=5)


async def test_a_call_that_makes_too_long_a_line_is_refused_and_the_next_one_works(rig: Rig) -> None:
    remote = await rig.there()
    with pytest.raises(ControlFailed, match=f"send_raw: a line has at most {LINE_LIMIT} bytes, this one would have"):
        await remote.send_raw("00" * (LINE_LIMIT // 2))
    assert not (await remote.state()).running


async def test_ten_thousand_devices_fit_into_a_line(rig: Rig) -> None:
    remote = await rig.there()
    await remote.report([DeviceHealth("node-a", f"gpu-{n}", Health.HEALTHY, "x" * 100) for n in range(10_000)])


async def test_events_come_with_the_time_of_the_drivers_machine(rig: Rig) -> None:
    records: list[Record] = []
    line = {
        "at": 12.5,
        "event": {"event": "stream-opened", "driver": "d", "instance": "", "stream": "d#1", "flavour": "f"},
    }
    remote = await driver_that_says(rig, json.dumps(line).encode() + b"\n", records.append)
    with pytest.raises(ControlFailed):
        await remote.start()
    assert records == [Record(12.5, StreamOpened("d", "", "d#1", "f"))]
