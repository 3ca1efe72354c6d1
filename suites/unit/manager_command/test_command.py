"""`drahealth manager` as a process, with a driver in another process."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator

import pytest

from drahealth.fakes.cluster.access import port_in
from drahealth.proto.events import Prepared, Record
from drahealth.proto.values import Health
from drahealth.suites.targets.drivers import ProcessDrivers
from drahealth.suites.targets.kubelet.processes import Reservation
from drahealth.suites.unit.manager_command.manager_process import FOR_ALL, Manager
from drahealth.suites.unit.manager_command.rig import DRIVER, PATIENCE, SCHEDULED, TEMPLATE, Rig, health, pod

UNHEALTHY = (f"{DRIVER}/node-a/gpu-0", "Unhealthy", "xid 79")


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
    reserved = Reservation(port_in(rig.root / "kubeconfig"))  # no other process gets it meanwhile
    await manager.start()
    reserved.release()
    after = await rig.shows(UNHEALTHY)
    assert (after["uid"], after["phase"]) == (before["uid"], "Running")

    await driver.start()  # and finds the API server again
    await manager.tells("stream-opened")
    assert [type(record.what) for record in records].count(Prepared) == 1
    code, said = await manager.end(signal.SIGTERM)
    assert (code, "Traceback" in said, manager.lines[-1]["event"]) == (0, False, "stopped")
    assert health(rig.status()) == [UNHEALTHY]


async def test_second_manager_on_the_same_root_directory_is_rejected(rig: Rig, manager: Manager) -> None:
    await manager.start()
    line = (sys.executable, "-c", FOR_ALL, "manager", "--root-dir", str(rig.root))
    second = await asyncio.create_subprocess_exec(*line, stderr=asyncio.subprocess.PIPE)
    async with asyncio.timeout(PATIENCE):
        _, said = await second.communicate()
    sentence = f"drahealth: another drahealth manager uses {rig.root}; end that process, or pass another --root-dir\n"
    assert (second.returncode, said.decode()) == (3, sentence)
    assert await manager.end(signal.SIGINT) == (0, "")
