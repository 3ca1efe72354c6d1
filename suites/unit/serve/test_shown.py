"""Output of served drivers: metrics, the live view, and `ctl watch`."""

import asyncio
import io
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc.aio
import pytest
from aiohttp import ClientSession
from rich.console import Console

from drahealth.fakes.control.news import News, command_done
from drahealth.fakes.program.errors import CommandError
from drahealth.fakes.serve.live_view import LiveView
from drahealth.fakes.serve.metrics import Metrics
from drahealth.proto.events import (
    CommandDone,
    DeviceChanged,
    DriverEnding,
    DriverEvent,
    DriverRetired,
    ExpectationFailed,
    ExpectationMet,
    ReportSent,
    to_json,
)
from drahealth.proto.services import GET_INFO
from drahealth.proto.sockets import target
from drahealth.proto.values import DeviceHealth, Health
from drahealth.suites.unit.endings import PATIENCE
from drahealth.suites.unit.serve.rig import DRIVER, Rig


async def test_metrics_count_calls_and_commands_and_show_the_state(rig: Rig) -> None:
    await rig.serve(metrics_port=0)
    await rig.told("inject", fault="xid/79", device="split")
    async with grpc.aio.insecure_channel(target(rig.root / f"plugins_registry/{DRIVER}-reg.sock")) as channel:
        await GET_INFO.stub(channel)(GET_INFO.request(), timeout=PATIENCE)
    text = await rig.metrics()
    assert rig.metrics_url.startswith("http://127.0.0.1:")
    assert (
        f'drahealth_fake_calls_total{{driver="{DRIVER}",method="pluginregistration.Registration/GetInfo"}} 1.0' in text
    )
    assert f'drahealth_fake_devices{{driver="{DRIVER}",health="Unhealthy"}} 2.0' in text
    assert f'drahealth_fake_faults{{driver="{DRIVER}",fault="xid/79"}} 3.0' in text
    assert f'drahealth_fake_commands_total{{command="inject",driver="{DRIVER}"}} 1.0' in text
    assert f'drahealth_fake_streams{{driver="{DRIVER}"}} 0.0' in text
    assert f'drahealth_fake_prepared_claims{{driver="{DRIVER}"}} 0.0' in text


@pytest.mark.parametrize(("address", "status"), [("127.0.0.1", 401), ("localhost", 401), ("0.0.0.0", 200)])
async def test_metrics_on_a_loopback_address_need_the_token(rig: Rig, address: str, status: int) -> None:
    await rig.serve(metrics_port=0, metrics_address=address)
    async with ClientSession() as session, session.get(rig.metrics_url) as answer:
        assert answer.status == status


async def test_metrics_port_in_use_is_rejected_and_leaves_no_sockets(rig: Rig) -> None:
    taken = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = taken.sockets[0].getsockname()[1]
    with pytest.raises(CommandError, match=rf"metrics cannot be served on 127.0.0.1, port {port}: .*in use; choose"):
        await rig.serve(metrics_port=port)
    taken.close()
    assert rig.sockets() == []


async def test_live_view_shows_unhealthy_devices_first(rig: Rig) -> None:
    program = await rig.serve()
    view = LiveView(Console(width=160, height=40, file=io.StringIO()))
    program.news.add(view)
    with view.shown(program.drivers):
        await rig.told("set_health", device="gpu-1", health="Unknown", message="who\x1b knows")
        await rig.told("inject", fault="xid/79", device="split/mig-1")
        await rig.told("stream_drop", share=0.5)
        await view.look()
        out = io.StringIO()
        Console(width=160, file=out).print(view.view())
    lines = [" ".join(line.split()) for line in out.getvalue().splitlines()]
    assert f"{DRIVER} node-a not registered 0 0 none drop 0.5" in lines
    rows = [line for line in lines if line.startswith(f"{DRIVER}/")]
    assert rows[0] == f"{DRIVER}/node-a/split-mig-1 Unhealthy XID 79: split/mig-1 has fallen off the bus xid/79"
    assert rows[1] == f"{DRIVER}/node-a/gpu-1 Unknown who\\x1b knows"
    assert lines[-1].endswith(f"{DRIVER}: command stream_drop share=0.5")


HEED = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
"""
HEEDING = f"""{HEED}
import runpy
runpy.run_module("drahealth.fakes", run_name="__main__")
"""
"""The program as a terminal starts it; what a shell runs in the background hears no interrupts."""


@asynccontextmanager
async def watching(serving: Rig, *arguments: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """`ctl watch`, and the first line that it has printed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", HEEDING, "ctl", "--socket", str(serving.socket), "watch", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout
    try:
        first = asyncio.create_task(process.stdout.readline())
        async with asyncio.timeout(PATIENCE):
            while not first.done():  # it hears what is told once it is there
                await serving.told("set_heartbeat", seconds=5)
                await asyncio.wait([first], timeout=0.2)
        yield process, first.result().decode()
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_watch_prints_events_as_text_until_an_interrupt(serving: Rig) -> None:
    async with watching(serving) as (process, first):
        process.send_signal(signal.SIGINT)
        _, said = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert (first, process.returncode, said) == (f"{DRIVER}: command set_heartbeat seconds=5\n", 0, b"")


UNNOTICED = """
import _thread, sys, threading
from contextlib import suppress
from pathlib import Path
from drahealth.fakes.ctl.connection import Connection
with Connection(Path(sys.argv[1])) as connection, suppress(KeyboardInterrupt):
    threading.Timer(0.2, _thread.interrupt_main).start()
    for message in connection.news():
        raise AssertionError(message)
"""
"""Waits for events. The interrupt is pending, but does not end the system call that waits."""


async def test_interrupt_just_before_the_wait_for_events_ends_the_wait(serving: Rig) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HEED + UNNOTICED, str(serving.socket), stderr=asyncio.subprocess.PIPE
    )
    try:
        _, said = await asyncio.wait_for(process.communicate(), PATIENCE)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert (process.returncode, said) == (0, b"")


async def test_watch_prints_events_as_json_until_the_process_ends(rig: Rig) -> None:
    await rig.serve()
    async with watching(rig, "--json") as (process, first):
        await rig.end()
        _, said = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert json.loads(first) == to_json(CommandDone(DRIVER, "set_heartbeat", {"seconds": 5}))
    assert (process.returncode, said.decode()) == (3, f"drahealth: the process at {rig.socket} has ended\n")


# -- news


def device(name: str, health: Health, updated: int = 0) -> DeviceHealth:
    return DeviceHealth("p", name, health, updated=updated)


def heard(*reports: tuple[DeviceHealth, ...], complete: bool = True) -> list[str]:
    """The devices reported as changed, report by report."""
    news, events = News(), list[DriverEvent]()
    news.add(events.append)
    observe = news.observer()
    for report in reports:
        observe(ReportSent(DRIVER, "", "s", report, complete))
    return [f"{event.device} {event.health}" for event in events if isinstance(event, DeviceChanged)]


@pytest.mark.parametrize("complete", [True, False])
def test_device_is_reported_only_when_its_health_changes(complete: bool) -> None:
    well, ill = device("a", Health.HEALTHY), device("a", Health.UNHEALTHY)
    other = device("b", Health.HEALTHY)
    reports = [(well, other), (ill, other), (device("a", Health.UNHEALTHY, updated=5), other), (well, other)]
    assert heard(*reports, complete=complete) == ["p/a Unhealthy", "p/a Healthy"]


def test_reports_of_different_lengths_are_compared_by_device_name() -> None:
    ill, other = device("a", Health.UNHEALTHY), device("b", Health.UNKNOWN)
    assert heard((ill, other), (other,), (ill, other), ()) == ["p/a Unhealthy", "p/b Unknown"]


def test_long_command_arguments_are_shortened_in_events() -> None:
    event = command_done(DRIVER, "play", {"changes": [1] * 9, "text": "x" * 500, "number": 7, "offer": ["v1"]})
    long = f"{'x' * 200}... (500 characters)"
    assert event.args == {"changes": "9 of them", "text": long, "number": 7, "offer": ["v1"]}


def test_removed_listener_receives_no_events() -> None:
    news, events = News(), list[DriverEvent]()
    end = news.add(events.append)
    news.publish(DriverEnding(DRIVER))
    end()
    end()
    news.publish(DriverRetired(DRIVER))
    assert events == [DriverEnding(DRIVER)]


async def test_metrics_count_expectations_by_outcome() -> None:
    metrics = Metrics([])
    met = ExpectationMet(DRIVER, "timeline.0", "gpu-0", "Unhealthy")
    for event in (met, ExpectationFailed(DRIVER, "timeline.1", "line 3", "gpu-0", "Unhealthy", "no pod shows it"), met):
        metrics(event)
    text = (await metrics.text()).decode()
    assert f'drahealth_fake_expectations_total{{driver="{DRIVER}",outcome="met"}} 2.0' in text
    assert f'drahealth_fake_expectations_total{{driver="{DRIVER}",outcome="failed"}} 1.0' in text
