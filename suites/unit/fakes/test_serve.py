"""A fake driver as a process of its own."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import asdict
from pathlib import Path

import pytest

from drahealth.fakes.api_server.http import HttpApi
from drahealth.fakes.hardware.control import DriverOptions
from drahealth.fakes.hardware.remote import LINE_LIMIT, ControlFailed, RemoteDriver
from drahealth.proto.events import Registered
from drahealth.proto.values import Health
from drahealth.suites.unit.fakes.driver_rig import DRIVER, Rig


@pytest.fixture
async def kubeconfig(rig: Rig) -> AsyncIterator[Path]:
    http = HttpApi(rig.api)
    await http.start()
    http.write_kubeconfig(rig.root / "kubeconfig")
    yield rig.root / "kubeconfig"
    await http.stop()


async def run(*arguments: str) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    command = ("-m", "drahealth.fakes.hardware.serve", *arguments)
    return await asyncio.create_subprocess_exec(
        sys.executable, *command, stdin=pipe, stdout=pipe, stderr=pipe, limit=LINE_LIMIT
    )


def options(rig: Rig) -> DriverOptions:
    return DriverOptions(DRIVER, "node-a", ("gpu-0",), str(rig.root / "registry"), str(rig.root / "data"))


async def driver_process(rig: Rig, kubeconfig: Path) -> tuple[asyncio.subprocess.Process, RemoteDriver]:
    """A driver that has started, in a process of its own."""
    process = await run(json.dumps(asdict(options(rig))), str(kubeconfig), "--jumping-clock")
    assert process.stdin
    assert process.stdout
    driver = RemoteDriver(process.stdout, process.stdin, lambda record: rig.events.append(record.what))
    rig.on_close(driver.close)
    async with asyncio.timeout(20):
        await driver.start()
    return process, driver


async def test_it_does_as_it_is_told_and_ends_with_its_input(rig: Rig, kubeconfig: Path) -> None:
    process, driver = await driver_process(rig, kubeconfig)
    await rig.tell()
    async with asyncio.timeout(5):
        await driver.wait_registered()
    await driver.set_health("gpu-0", Health.UNHEALTHY, "xid 79")
    await driver.jump(1000)
    async with rig.watch(driver) as stream:
        assert await stream.shows() == {"gpu-0": "Unhealthy: xid 79"}
    await driver.close()
    assert (await asyncio.wait_for(process.communicate(), timeout=10))[1] == b""
    assert (process.returncode, rig.sockets(), len(await rig.slices())) == (0, [], 1)
    assert rig.happened(Registered) == [Registered(DRIVER, "", ok=True)]


async def test_it_stops_in_order_when_it_is_terminated(rig: Rig, kubeconfig: Path) -> None:
    process, driver = await driver_process(rig, kubeconfig)
    process.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(process.wait(), timeout=10) == 0
    assert rig.sockets() == []
    with pytest.raises(ControlFailed, match="the driver is gone"):
        await driver.state()


async def test_a_driver_that_was_killed_leaves_its_sockets(rig: Rig, kubeconfig: Path) -> None:
    process, _ = await driver_process(rig, kubeconfig)
    process.kill()
    await process.wait()
    assert {"data/dra.sock", f"registry/{DRIVER}-reg.sock"} <= set(rig.sockets())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "argument options: Invalid JSON"),
        (
            '{"name": "d", "node": "n", "devices": [], "registry_dir": "/r"}',
            "argument options: data_dir: Field required",
        ),
        (
            '{"name": "", "node": "n", "devices": [], "registry_dir": "/r", "data_dir": "/d"}',
            "argument options: Value error, a driver has a name",
        ),
    ],
)
async def test_options_that_make_no_driver_are_named(text: str, reason: str) -> None:
    process = await run(text, "nowhere")
    _, said = await asyncio.wait_for(process.communicate(), timeout=10)
    assert process.returncode == 2
    assert said.decode().splitlines()[-1].startswith(f"drahealth.fakes.hardware.serve: error: {reason}")


async def test_a_place_that_makes_no_driver_is_named(rig: Rig, kubeconfig: Path) -> None:
    deep = {**asdict(options(rig)), "data_dir": "/" + "x" * 107}
    for arguments, reason in (
        ((json.dumps(deep), str(kubeconfig)), "the socket path /xxx"),
        ((json.dumps(asdict(options(rig))), str(rig.root / "nowhere")), ""),
    ):
        process = await run(*arguments)
        _, said = await asyncio.wait_for(process.communicate(), timeout=10)
        assert process.returncode == 1
        assert said.decode().startswith(f"drahealth.fakes.hardware.serve: {reason}")
        assert said.count(b"\n") == 1
