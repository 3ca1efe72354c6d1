"""The scripted kubelet with fake drivers, and with servers that are no plugins."""

import asyncio
import math
from typing import Any

import grpc
import pytest

from drahealth.proto.events import GrpcCall, MalformedReceived, RegistrationFailed, ReportReceived, StreamClosed
from drahealth.proto.health_apis import HEALTH_APIS, V1
from drahealth.proto.services import PREPARE, WATCH_HEALTH_V1
from drahealth.proto.values import ClaimRef
from drahealth.suites.driver_checks.evidence import CANCELLED_BY_US
from drahealth.suites.driver_checks.scripted_kubelet import (
    REPORTS_LIMIT,
    Answer,
    Discovery,
    DraCalls,
    Found,
    Plugin,
    connected,
    plugin_of,
    register,
    subscribed,
)
from drahealth.suites.unit.driver_checks.lab_rig import DRIVER, LabRig

INFO = {"type": "DRAPlugin", "name": "odd.example.com", "supported_versions": ["v1.DRAPlugin"]}


def nothing() -> None:
    """The driver never ends."""


async def find(rig: LabRig, limit: float = 20) -> Found | None:
    return await Discovery(rig.places.registry_dir, rig.clock, rig.events.append).find(limit, nothing)


async def discovered(rig: LabRig) -> Plugin:
    found = await find(rig)
    assert found
    return plugin_of(found)


# -- registration


async def test_driver_is_described_by_get_info(rig: LabRig) -> None:
    driver = await rig.driver()
    plugin = await discovered(rig)
    assert (plugin.driver, plugin.endpoint, plugin.socket) == (DRIVER, *driver.sockets)


@pytest.mark.parametrize("answer", [Answer(), Answer(False, "no"), Answer(delay=60.0)])
async def test_driver_receives_the_answer_of_the_registration(rig: LabRig, answer: Answer) -> None:
    driver = await rig.driver()
    found = await find(rig)
    assert found
    async with rig.time_flies():
        await register(found.socket, rig.clock, rig.events.append, answer)
    state = await driver.state()
    assert (state.registered, state.registration_error) == (answer.registered, answer.error)


async def test_no_socket_is_found_in_an_empty_directory(rig: LabRig) -> None:
    async with rig.time_flies():
        assert await find(rig) is None


async def test_sockets_of_an_earlier_process_are_ignored(rig: LabRig) -> None:
    await rig.driver()
    found = await find(rig)
    assert found
    known = found.socket
    discovery = Discovery(rig.places.registry_dir, rig.clock, rig.events.append, suits=lambda socket: socket != known)
    async with rig.time_flies():
        assert await discovery.find(20, nothing) is None


def garbage(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n" * 100)


def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.close()


def silence(writer: asyncio.StreamWriter) -> None:
    pass


@pytest.mark.parametrize("answer", [garbage, hang_up, silence])
async def test_socket_without_a_grpc_server_is_an_event(rig: LabRig, answer: Any) -> None:
    path = await rig.listen(answer)
    async with rig.time_flies():
        found = await find(rig, 60)
    assert found
    assert not found.answered
    assert {event.endpoint for event in rig.happened(RegistrationFailed)} == {str(path)}


async def test_driver_is_found_among_sockets_that_are_no_drivers(rig: LabRig) -> None:
    for number in range(10):
        await rig.listen((garbage, hang_up, silence)[number % 3], f"a{number}.sock")
    await rig.driver()
    assert (await discovered(rig)).driver == DRIVER


async def test_unimplemented_get_info_counts_as_an_answer(rig: LabRig) -> None:
    await rig.serve({})
    async with rig.time_flies():
        found = await find(rig)
    assert found
    assert (found.answered, found.info) == (True, None)
    assert {call.code for call in rig.happened(GrpcCall)} == {"UNIMPLEMENTED"}


# -- calls


async def test_cancelled_prepare_is_an_event(rig: LabRig) -> None:
    asked = asyncio.Event()

    async def hang(request: Any, context: Any) -> Any:
        asked.set()
        await asyncio.Event().wait()

    endpoint = await rig.serve({PREPARE["v1.DRAPlugin"]: hang})
    async with connected(endpoint) as channel:
        calls = DraCalls(channel, rig.clock, rig.events.append, rig.plugin(endpoint), "v1.DRAPlugin")
        work = asyncio.create_task(calls.prepare(ClaimRef("default", "a", "uid-a")))
        await asked.wait()
        work.cancel()
        await asyncio.wait([work])
    assert [call.code for call in rig.happened(GrpcCall)] == ["CANCELLED"]


async def test_claim_without_a_result_is_a_problem(rig: LabRig) -> None:
    async def answer(request: Any, context: Any) -> Any:
        return PREPARE["v1.DRAPlugin"].response(claims={"uid-b": {"error": "no"}})

    endpoint = await rig.serve({PREPARE["v1.DRAPlugin"]: answer})
    a, b = ClaimRef("default", "a", "uid-a"), ClaimRef("default", "b", "uid-b")
    async with connected(endpoint) as channel:
        called = await DraCalls(channel, rig.clock, rig.events.append, rig.plugin(endpoint), "v1.DRAPlugin").prepare(
            a, b
        )
    assert (called.problem_of(a), called.problem_of(b)) == ("the answer has no result for this claim", "no")


# -- health streams


def subscribe(rig: LabRig, plugin: Plugin, pace: float = 0.0) -> Any:
    return subscribed(plugin, V1, rig.clock, rig.events.append, pace=pace)


@pytest.mark.parametrize("api", HEALTH_APIS)
async def test_first_report_of_each_health_api_is_received(rig: LabRig, api: str) -> None:
    await rig.driver(health_apis=(HEALTH_APIS[api].advertised,), served_health_apis=(api,))
    async with subscribed(await discovered(rig), HEALTH_APIS[api], rig.clock, rig.events.append) as stream:
        assert await stream.reported(60)
    (closed,) = rig.happened(StreamClosed)
    assert (closed.code, closed.why) == ("CANCELLED", CANCELLED_BY_US)


async def test_several_subscribers_each_receive_all_devices(rig: LabRig) -> None:
    await rig.driver()
    plugin = await discovered(rig)
    async with subscribe(rig, plugin) as one, subscribe(rig, plugin) as two:
        assert await one.reported(60)
        assert await two.reported(60)
    assert [len(report.devices) for report in rig.happened(ReportReceived)] == [3, 3]


async def test_health_api_that_is_not_served_ends_unimplemented(rig: LabRig) -> None:
    endpoint = await rig.serve({})
    async with subscribe(rig, rig.plugin(endpoint)) as stream:
        assert not await stream.reported(60)
    assert [closed.code for closed in rig.happened(StreamClosed)] == ["UNIMPLEMENTED"]


async def test_stream_without_reports_is_bounded(rig: LabRig) -> None:
    async def hang(request: Any, context: Any) -> Any:
        await asyncio.Event().wait()
        yield None

    endpoint = await rig.serve({WATCH_HEALTH_V1: hang})
    async with rig.time_flies(), subscribe(rig, rig.plugin(endpoint)) as stream:
        assert not await stream.reported(5)
        assert stream.is_open


async def test_garbage_on_a_stream_ends_it(rig: LabRig) -> None:
    async def send(request: Any, context: Any) -> Any:
        yield b"\xff" * 300

    endpoint = await rig.serve({WATCH_HEALTH_V1: send})
    async with subscribe(rig, rig.plugin(endpoint)) as stream:
        await stream.ended()
    (malformed,) = rig.happened(MalformedReceived)
    assert (malformed.size, malformed.start) == (300, "ff" * 256)


async def flood(request: Any, context: Any) -> Any:
    while True:
        yield WATCH_HEALTH_V1.response()


async def test_flood_of_reports_is_limited(rig: LabRig) -> None:
    endpoint = await rig.serve({WATCH_HEALTH_V1: flood})
    async with subscribe(rig, rig.plugin(endpoint)) as stream:
        await stream.ended()
    assert stream.reports == REPORTS_LIMIT


async def test_idle_subscriber_reads_one_report(rig: LabRig) -> None:
    endpoint = await rig.serve({WATCH_HEALTH_V1: flood})
    async with rig.time_flies(), subscribe(rig, rig.plugin(endpoint), math.inf) as idle:
        assert await idle.reported(math.inf)
        async with subscribe(rig, rig.plugin(endpoint)) as fast:
            await fast.ended()
        assert (idle.reports, idle.is_open) == (1, True)


async def test_stream_ended_by_the_driver_records_its_code(rig: LabRig) -> None:
    async def fail(request: Any, context: Any) -> Any:
        await context.abort(grpc.StatusCode.ABORTED, "on purpose")
        yield None

    endpoint = await rig.serve({WATCH_HEALTH_V1: fail})
    async with subscribe(rig, rig.plugin(endpoint)) as stream:
        await stream.ended()
    assert [(closed.code, closed.why) for closed in rig.happened(StreamClosed)] == [("ABORTED", "ABORTED: on purpose")]
