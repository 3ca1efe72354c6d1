"""`drahealth manager --history`: recorded kubelet-side events of any driver, read from the file."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from drahealth.proto.events import (
    Event,
    GrpcCall,
    ManagerStarted,
    ManagerStopped,
    ReportReceived,
    StatusSeen,
    StreamOpened,
)
from drahealth.proto.history import HistoryFile, read_history
from drahealth.proto.values import DeviceHealth, Health
from drahealth.suites.errors import HarnessError
from drahealth.suites.judging.histories import violations
from drahealth.suites.manager_command.program import Options
from drahealth.suites.unit.manager.rig import until
from drahealth.suites.unit.manager_command.rig import CLAIM, DIRECT, DRIVER, PATIENCE, Rig, pod

E = TypeVar("E", bound=Event)
FOR_ALL = "from drahealth.suites.command import main\nmain()"
GPU = f"{DRIVER}/node-a/gpu-0"
MINIMAL = Path(__file__).parents[3] / "docs" / "minimal_driver.py"


def of(history: HistoryFile, kind: type[E]) -> list[E]:
    return [record.what for record in history.records if isinstance(record.what, kind)]


@pytest.fixture
def path(rig: Rig) -> Path:
    return rig.root / "history.jsonl"


async def test_history_has_the_whole_life_of_a_driver(rig: Rig, path: Path) -> None:
    await rig.start(history=path)
    driver = await rig.driver("gpu-0")
    rig.write("job.yaml", CLAIM, pod(claim=DIRECT))
    await rig.shows((GPU, "Healthy", ""))
    await driver.set_health("gpu-0", Health.UNHEALTHY, "xid 79", 7)
    await rig.shows((GPU, "Unhealthy", "xid 79"))
    await rig.stop()
    history = read_history(path)
    assert (history.header.profile, history.truncated) == ("kep", None)
    assert (type(history.records[0].what), type(history.records[-1].what)) == (ManagerStarted, ManagerStopped)
    assert [call.method.rpartition("/")[2] for call in of(history, GrpcCall)][:3] == [
        *("GetInfo", "NotifyRegistrationStatus", "NodePrepareResources"),
    ]
    report = of(history, ReportReceived)[-1]
    last = report.devices[0]
    assert last == DeviceHealth("node-a", "gpu-0", Health.UNHEALTHY, "xid 79", 7, last.updated)
    assert (report.stream, report.size > 20) == (of(history, StreamOpened)[0].stream, True)


async def test_prepare_is_recorded_with_request_answer_and_duration(rig: Rig, path: Path) -> None:
    await rig.start(history=path)
    await rig.driver("gpu-0")
    rig.write("job.yaml", CLAIM, pod(claim=DIRECT))
    await rig.shows((GPU, "Healthy", ""))
    await rig.stop()
    (prepared,) = (call for call in of(read_history(path), GrpcCall) if "Prepare" in call.method)
    (claim,) = prepared.request["claims"]
    assert (claim["name"], prepared.code, prepared.driver) == ("gpu", "OK", DRIVER)
    assert prepared.response
    (device,) = prepared.response["claims"][claim["uid"]]["devices"]
    assert (device["device_name"], 0 < prepared.seconds < PATIENCE) == ("gpu-0", True)


@pytest.fixture
def taken(rig: Rig, path: Path) -> Iterator[Options]:
    """Options with a history file that another process writes after the check; it stays as it is."""
    options = rig.options(history=path)
    path.write_text("mine")
    yield options
    assert path.read_text() == "mine"


async def test_history_file_created_after_the_check_is_not_overwritten(rig: Rig, taken: Options) -> None:
    with pytest.raises(HarnessError):
        await rig.run(taken)


@pytest.fixture
async def killed(rig: Rig, path: Path) -> AsyncIterator[Callable[[], None]]:
    """The program as a process; the function kills it."""
    line = ("manager", "--root-dir", str(rig.root), "--node-name", "node-a", "--history", str(path))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", FOR_ALL, *line, stdout=asyncio.subprocess.DEVNULL
    )
    yield lambda: process.send_signal(signal.SIGKILL)
    await process.wait()


async def test_history_of_killed_manager_has_all_records_until_then(
    rig: Rig, path: Path, killed: Callable[[], None]
) -> None:
    rig.write("job.yaml", pod())

    def is_seen() -> bool:
        return path.exists() and '"phase":"Running"' in path.read_text()

    await until(is_seen, PATIENCE)
    killed()
    history = read_history(path)
    assert (of(history, StatusSeen)[-1].phase, of(history, ManagerStopped)) == ("Running", [])


# -- a driver that is not ours


@pytest.fixture
async def minimal(rig: Rig, path: Path) -> AsyncIterator[None]:
    """A manager that records, and docs/minimal_driver.py registered there as a process of its own."""
    await rig.start(history=path)
    driver = await asyncio.create_subprocess_exec(
        sys.executable, str(MINIMAL), "node-a", str(rig.root / "kubeconfig"), str(rig.root)
    )
    yield
    driver.terminate()
    await driver.wait()


@pytest.mark.usefixtures("minimal")
async def test_recorded_history_of_an_external_driver_is_checked(rig: Rig, path: Path) -> None:
    claim = CLAIM.replace("gpu.example.com", "minimal.example.com").replace("gpu-0", "dev-0")
    rig.write("job.yaml", claim, pod(claim=DIRECT))
    await rig.shows(("minimal.example.com/node-a/dev-0", "Healthy", ""))
    await rig.stop()
    history = read_history(path)
    assert {name: found for name, found in violations(history).items() if found} == {}
    without = [record for record in history.records if not isinstance(record.what, ReportReceived)]
    assert violations(replace(history, records=without))["STATUS-07"] != []


async def test_health_from_before_the_start_is_no_violation(rig: Rig, path: Path) -> None:
    await rig.start()
    driver = await rig.driver("gpu-0")
    rig.write("job.yaml", CLAIM, pod(claim=DIRECT))
    await rig.shows((GPU, "Healthy", ""))
    await driver.set_health("gpu-0", Health.UNHEALTHY, "xid 79")
    await rig.shows((GPU, "Unhealthy", "xid 79"))
    await rig.stop()
    await driver.crash()
    await rig.start(history=path)
    await rig.shows((GPU, "Unhealthy", "xid 79"))
    await rig.stop()
    history = read_history(path)
    assert any("xid 79" in str(status.containers) for status in of(history, StatusSeen))
    assert violations(history)["STATUS-07"] == []
