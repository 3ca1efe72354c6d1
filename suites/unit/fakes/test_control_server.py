"""The drivers' side of the control surface: its replies, and drivers whose connection has ended."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drahealth.fakes.control.commands import Crash
from drahealth.fakes.control.definition import handles
from drahealth.fakes.control.server import ControlServer
from drahealth.fakes.control.wire import (
    LINE_LIMIT,
    MalformedLine,
    read_attach,
    read_attached,
    read_driver_line,
    read_request,
)
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.suites.unit.endings import PATIENCE
from drahealth.suites.unit.fakes.driver_rig import DRIVER, Rig, make_plugin

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]
MAKE: dict[str, Any] = {"id": 1, "call": "make", "args": {"options": {"name": DRIVER, "node": "node-a"}}}

INSTANCE = {
    "instance": "",
    "health_apis": ["v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth", "v1alpha1.NodeHealth"],
    "heartbeat": 0.0,
    "upgrading": False,
    "stream_faults": [],
}


def server_of(rig: Rig, linger: float = 0.0) -> ControlServer:
    return ControlServer(
        lambda _, observe: rig.here(observe=observe), jump=rig.clock.jump, linger=linger, make_plugin=make_plugin
    )


async def answer(ends: Ends, request: Any = None) -> Any:
    """The next line, after this one if there is one."""
    reader, writer = ends
    if request is not None:
        writer.write((request if isinstance(request, bytes) else json.dumps(request).encode()) + b"\n")
    async with asyncio.timeout(PATIENCE):
        return json.loads(await reader.readline())


async def attached(rig: Rig, server: ControlServer, limit: int = LINE_LIMIT, **how: int) -> Ends:
    """A connection that has attached to the session `s`."""
    ends = await rig.connect(server, limit)
    assert (await answer(ends, {"attach": "s", **how}))["attached"]["now"] > 0
    return ends


@pytest.fixture
async def ends(rig: Rig) -> Ends:
    """A plain client's end of a connection, with one driver made."""
    ends = await attached(rig, server_of(rig))
    options = rig.options()
    folders = {"registry_dir": options.registry_dir, "data_dir": options.data_dir, "devices": ["gpu-0"]}
    made = await answer(ends, {**MAKE, "args": {"options": {**MAKE["args"]["options"], **folders}}})
    assert made == {"seq": 1, "id": 1, "result": 1}
    return ends


async def test_a_call_is_answered_with_its_number_and_result(ends: Ends) -> None:
    state = {"running": False, "registered": False, "registration_error": "", "streams": 0, "stream_requests": {}}
    assert await answer(ends, {"id": 7, "driver": 1, "call": "state"}) == {
        "seq": 2,
        "id": 7,
        "result": {**state, "prepared": [], "faults": {}, "taints": {}, **INSTANCE},
    }
    assert await answer(ends, {"id": 8, "call": "jump", "args": {"seconds": 1}}) == {"seq": 3, "id": 8, "result": None}


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        ({"driver": 1, "call": "fly"}, "a driver has no command 'fly'; valid: inject, "),
        ({"driver": 1, "call": "health"}, "a driver has no command 'health'"),
        ({"call": "state"}, "unknown call 'state'; valid: make, make_plugin, drop, jump, close"),
        ({"call": "make_plugin", "args": {"options": {"resource": "cpu"}}}, "options.devices: "),
        ({"driver": 2, "call": "state"}, "unknown driver 2"),
        ({"call": "make", "args": {"options": {"name": "d"}}}, "options.node: "),
        ({"call": "jump", "args": {"seconds": -1}}, "jump must be"),
        ({"driver": 1, "call": "stream_delay"}, "seconds: this field is required"),
        ({"driver": 1, "call": "stream_delay", "args": {"seconds": "x"}}, "seconds: must be a number"),
        ({"driver": 1, "call": "stream_stall", "args": {"loud": 1}}, "loud: unknown field"),
        (
            {"driver": 1, "call": "set_health", "args": {"device": "gpu-0", "health": "Sick"}},
            "health: must be 'Healthy'",
        ),
        (
            {"driver": 1, "call": "set_health", "args": {"device": "gpu-9", "health": "Healthy"}},
            "unknown device 'gpu-9'",
        ),
        ({"driver": 1, "call": "report", "args": {"devices": [{"pool": "p"}]}}, "devices.0.device: "),
    ],
)
async def test_invalid_call_returns_an_error(ends: Ends, request_: Any, error: str) -> None:
    refused = await answer(ends, {"id": 2, **request_})
    assert (refused["id"], refused["error"][: len(error)]) == (2, error)


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"",
        b"7",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        b'{"id": NaN',
        b'{"id": 2}',
        b'{"id": 2, "call": "x", "args": [1]}',
    ],
    ids=range(9),
)
async def test_malformed_line_returns_an_error_and_the_next_call_works(ends: Ends, line: bytes) -> None:
    refused = await answer(ends, line)
    assert (refused["id"], refused["error"][:31]) == (None, "a call must be a JSON object wi")
    assert (await answer(ends, {"id": 2, "driver": 1, "call": "state"}))["id"] == 2


async def test_connection_without_attach_is_rejected_and_closed(rig: Rig) -> None:
    ends = await rig.connect(server_of(rig))
    refused = await answer(ends, {"id": 1, "call": "make"})
    assert refused["error"] == 'the first line must be {"attach": SESSION}'
    assert await ends[0].read() == b""


async def test_a_line_that_is_too_long_is_named_and_ends_the_connection(rig: Rig) -> None:
    ends = await attached(rig, server_of(rig), limit=1000)
    refused = await answer(ends, {"id": 1, "call": "jump", "args": {"seconds": "0" * 2000}})
    assert refused == {"seq": 0, "id": None, "error": f"a line must have at most {LINE_LIMIT} bytes"}
    assert await ends[0].read() == b""


async def test_unexpected_exception_is_returned_as_an_error(rig: Rig) -> None:
    class Broken(FakeDriver):
        @handles(Crash)
        async def _crash(self, told: Crash) -> None:
            raise ZeroDivisionError("of all things")

    server = ControlServer(lambda _, __: Broken(rig.options(), rig.api), make_plugin=make_plugin)
    ends = await attached(rig, server)
    options = {"name": "d", "node": "n", "devices": [], "registry_dir": "/r", "data_dir": "/d"}
    await answer(ends, {**MAKE, "args": {"options": options}})
    broken = await answer(ends, {"id": 2, "driver": 1, "call": "crash"})
    assert broken == {"seq": 2, "id": 2, "error": "ZeroDivisionError: of all things", "environment": True}


async def test_long_call_does_not_block_other_calls(ends: Ends) -> None:
    ends[1].write(b'{"id": 2, "driver": 1, "call": "wait_registered"}\n')
    assert (await answer(ends, {"id": 3, "driver": 1, "call": "state"}))["id"] == 3


# -- a connection that ends


async def ending() -> "asyncio.Task[Any]":
    """The end of a session whose connection is about to end."""
    while True:
        for task in asyncio.all_tasks():
            if task.get_name() == "end of a control session":
                return task
        await asyncio.sleep(0)


async def test_drivers_retire_with_their_connection(rig: Rig, ends: Ends) -> None:
    await answer(ends, {"id": 2, "driver": 1, "call": "start"})
    assert len(await rig.slices()) == 1
    ends[1].close()
    await asyncio.wait_for(await ending(), PATIENCE)
    assert (rig.sockets(), await rig.slices()) == ([], [])


async def test_session_continues_over_another_connection(rig: Rig) -> None:
    server = server_of(rig, linger=60)
    first = await attached(rig, server)
    options = {"name": DRIVER, "node": "n", "devices": [], "registry_dir": "/r", "data_dir": "/d"}
    made = {**MAKE, "args": {"options": options}}
    said = [
        await answer(first, made),
        await answer(first, {"id": 2, "driver": 1, "call": "stream_silence"}),
    ]
    first[1].close()
    second = await rig.connect(server)
    assert (await answer(second, {"attach": "s", "seen": 0, "calls": 2}))["attached"]["taken"] == 2
    assert [await answer(second), await answer(second)] == said
    again = await answer(second, {"id": 3, "driver": 1, "call": "state", "seen": 2})
    assert (again["seq"], again["id"]) == (3, 3)
    await server.close()


async def test_duplicate_call_is_executed_once(rig: Rig) -> None:
    ends = await attached(rig, server_of(rig))
    options = {"name": DRIVER, "node": "n", "devices": [], "registry_dir": "/r", "data_dir": "/d"}
    await answer(ends, {**MAKE, "args": {"options": options}})
    ends[1].write(json.dumps({**MAKE, "args": {"options": options}}).encode() + b"\n")
    assert (await answer(ends, {"id": 2, "call": "drop", "args": {"driver": 2}}))["seq"] == 2


async def test_unknown_session_is_rejected(rig: Rig) -> None:
    ends = await rig.connect(server_of(rig))
    refused = await answer(ends, {"attach": "s", "seen": 9, "calls": 3})
    assert refused["error"] == "the drivers are lost: their process was restarted"


async def test_a_new_connection_to_a_session_ends_the_old_one(rig: Rig) -> None:
    server = server_of(rig, linger=60)
    old = await attached(rig, server)
    await attached(rig, server)
    assert await asyncio.wait_for(old[0].read(), PATIENCE) == b""
    await server.close()


# -- lines


@given(
    st.binary()
    | st.text().map(str.encode)
    | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(lambda value: json.dumps(value).encode())
)
def test_random_lines_are_rejected_as_malformed(line: bytes) -> None:
    for read in (read_attach, read_request, read_attached, read_driver_line):
        with pytest.raises(MalformedLine) as malformed:
            read(line)
        assert 0 < len(str(malformed.value)) < 400
