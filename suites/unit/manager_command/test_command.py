"""`drahealth manager` as a process, with a driver in another one."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from drahealth.proto.events import Prepared, Record
from drahealth.proto.values import Health
from drahealth.suites.targets.drivers import ProcessDrivers
from drahealth.suites.unit.manager.rig import until
from drahealth.suites.unit.manager_command.rig import DRIVER, PATIENCE, SCHEDULED, TEMPLATE, Rig, health, pod

UNHEALTHY = (f"{DRIVER}/node-a/gpu-0", "Unhealthy", "xid 79")
FOR_ALL = "from drahealth.suites.command import main\nmain()"


class Manager:
    """The program; `lines` is what it has written."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self.lines: list[dict[str, Any]] = []
        self.process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        line = (sys.executable, "-c", FOR_ALL, "manager", "--root-dir", str(self._rig.root), "--node-name", "node-a")
        pipe = asyncio.subprocess.PIPE
        self.lines.clear()
        self.process = await asyncio.create_subprocess_exec(*line, stdout=pipe, stderr=pipe)
        self._reading = asyncio.create_task(self._read(self.process))
        await self.tells("started")

    async def tells(self, event: str) -> None:
        await until(lambda: event in [line["event"] for line in self.lines], PATIENCE)

    async def end(self, how: signal.Signals) -> tuple[int | None, str]:
        """Its exit code and what it had to say."""
        assert self.process
        assert self._reading
        assert self.process.stderr
        self.process.send_signal(how)
        async with asyncio.timeout(PATIENCE):
            said = await self.process.stderr.read()
            await self._reading
        return await self.process.wait(), said.decode()

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout
        async for line in process.stdout:
            self.lines.append(json.loads(line))


@pytest.fixture
async def manager(rig: Rig) -> AsyncIterator[Manager]:
    manager = Manager(rig)
    yield manager
    if manager.process and manager.process.returncode is None:
        await manager.end(signal.SIGKILL)


@pytest.fixture
async def drivers(rig: Rig, manager: Manager) -> AsyncIterator[ProcessDrivers]:
    """A process for drivers, that knows the manager's API server by its kubeconfig."""
    rig.write("job.yaml", SCHEDULED, pod(claim=TEMPLATE))
    await manager.start()
    drivers = await ProcessDrivers.spawn(rig.root / "kubeconfig", jumping=False)
    yield drivers
    await drivers.close()


async def test_a_driver_of_another_process_registers_and_a_pod_shows_its_device(
    rig: Rig, manager: Manager, drivers: ProcessDrivers
) -> None:
    records: list[Record] = []
    driver = await drivers.start(rig.driver_options("gpu-0"), records.append)
    await driver.start()
    await rig.runs()
    await driver.set_health("gpu-0", Health.UNHEALTHY, "xid 79")
    before = await rig.shows(UNHEALTHY)

    await manager.end(signal.SIGKILL)
    await driver.crash()  # nobody answers the next one
    for path in rig.pods.glob("*.status.yaml"):
        path.unlink()
    await manager.start()
    after = await rig.shows(UNHEALTHY)
    assert (after["uid"], after["phase"]) == (before["uid"], "Running")

    await driver.start()  # and finds the API server again
    await manager.tells("stream-opened")
    assert [type(record.what) for record in records].count(Prepared) == 1
    code, said = await manager.end(signal.SIGTERM)
    assert (code, "Traceback" in said, manager.lines[-1]["event"]) == (0, False, "stopped")
    assert health(rig.status()) == [UNHEALTHY]


async def test_a_second_program_on_a_root_directory_is_one_sentence(rig: Rig, manager: Manager) -> None:
    await manager.start()
    line = (sys.executable, "-c", FOR_ALL, "manager", "--root-dir", str(rig.root))
    second = await asyncio.create_subprocess_exec(*line, stderr=asyncio.subprocess.PIPE)
    async with asyncio.timeout(PATIENCE):
        _, said = await second.communicate()
    sentence = f"drahealth: another drahealth manager uses {rig.root}; end that process, or pass another --root-dir\n"
    assert (second.returncode, said.decode()) == (3, sentence)
    assert await manager.end(signal.SIGINT) == (0, "")
