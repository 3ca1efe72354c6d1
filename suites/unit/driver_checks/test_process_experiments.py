"""The experiments that start and end a driver, with real processes."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from drahealth.fakes.clock import JumpClock
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.waiting import cancel_and_wait
from drahealth.proto.clock import SystemClock
from drahealth.proto.events import (
    ApiServerSwitched,
    ChildrenEnded,
    ClaimReadHeld,
    Event,
    ExperimentEnded,
    FaultInjected,
    GrpcCall,
    OutputMeasured,
    ProcessExited,
    ProcessStarted,
    ReportReceived,
    SignalSent,
    SliceChanged,
    SlicesListed,
    SocketsListed,
    StreamClosed,
    StreamOpened,
)
from drahealth.proto.health_apis import V1
from drahealth.suites.driver_checks.driver_run import DriverRun
from drahealth.suites.driver_checks.evidence import Evidence, Listener
from drahealth.suites.driver_checks.fault_adapters import FaultAdapters
from drahealth.suites.driver_checks.fault_plan import not_caused
from drahealth.suites.driver_checks.mutants.healthy import Healthy, Surroundings
from drahealth.suites.driver_checks.profile.file import profile_of
from drahealth.suites.driver_checks.run_experiments import run_experiments
from drahealth.suites.unit.driver_checks.runs import run_with

SERVE = (
    *(sys.executable, "-m", "drahealth.suites", "driver", "serve", "--kubeconfig", "{kubeconfig}"),
    *("--kubelet-dir", "{kubelet_dir}", "--cdi-dir", "{cdi_dir}", "--node-name", "{node_name}"),
    *("--socket", "{plugins_dir}/control.sock", "-f"),
)
INVENTORY = "format: inventory/v1\ndevices:\n- {name: gpu, count: 3}\n"


@pytest.fixture
def serve(tmp_path: Path) -> tuple[str, ...]:
    """The command line of a healthy driver."""
    file = tmp_path / "inventory.yaml"
    file.write_text(INVENTORY)
    return (*SERVE, str(file))


async def run(
    command: Sequence[str], *only: str, clock: JumpClock | None = None, listener: Listener = lambda *_: None
) -> Evidence:
    """Runs these experiments."""
    return await run_experiments(run_with(command=command, only=frozenset(only)), listener, clock or JumpClock())


@asynccontextmanager
async def flying(clock: JumpClock) -> AsyncGenerator[asyncio.Event]:
    """Advances the clock fast while the event is set."""
    take_off = asyncio.Event()

    async def fly() -> None:
        while True:
            await take_off.wait()
            clock.jump(0.25)
            await asyncio.sleep(0.005)

    task = asyncio.create_task(fly())
    try:
        yield take_off
    finally:
        await cancel_and_wait(task)


def outcomes(evidence: Evidence) -> dict[str, str]:
    """How the experiments ended that ran."""
    ended = {one.experiment: one.what.outcome for one in evidence.of(ExperimentEnded)}
    return {name: outcome for name, outcome in ended.items() if outcome != "not applicable"}


def story(evidence: Evidence, experiment: str) -> list[str]:
    """What happened in an experiment, in words; of streams only those of the best health API."""
    mine = [record.what for record in evidence.records if record.experiment == experiment]
    others = {one.stream for one in mine if isinstance(one, StreamOpened) and one.health_api != V1.name}
    words = (_word(event) for event in mine if getattr(event, "stream", "") not in others)
    return [word for word in words if word]


def _word(event: object) -> str | None:
    match event:
        case GrpcCall(method=method, code=code):
            return f"{method.rpartition('/')[2]} {code}"
        case ProcessStarted():
            return "started"
        case ProcessExited(exit_code=code):
            return f"exited {code}"
        case SignalSent(signal=name):
            return name
        case ApiServerSwitched(reachable=reachable):
            return "up" if reachable else "down"
        case ClaimReadHeld(held=held):
            return "held" if held else "released"
        case SlicesListed(slices=slices):
            return f"{len(slices)} slices"
        case SliceChanged(change=change, by=by):
            return f"{change} by {by}"
        case SocketsListed(registry=registry, plugins=plugins):
            return f"{len(registry)}+{len(plugins)} sockets"
        case StreamOpened() | ReportReceived() | StreamClosed():
            return event.event
    return None


REGISTERED = ["GetInfo OK", "NotifyRegistrationStatus OK"]
STREAMED = ["stream-opened", "report-received", "stream-closed"]
PREPARE, UNPREPARE = "NodePrepareResources OK", "NodeUnprepareResources OK"


@pytest.mark.long
async def test_healthy_driver_goes_through_all_experiments_with_processes(serve: tuple[str, ...]) -> None:
    names = ("refused-registration", "driver-restart", "slice-deletion", "api-server-down")
    evidence = await run(serve, "registration", "services", "slow-prepare", "end", *names)
    stories = {name: story(evidence, name) for name in ("slow-prepare", "end", *names)}
    without = stories["api-server-down"]
    assert without.pop(without.index("up")) == "up"  # a slow driver registers after it
    assert stories == {
        "slow-prepare": ["held", *STREAMED, *REGISTERED, "released", PREPARE, UNPREPARE],
        "end": ["SIGTERM", "exited 0", "0+0 sockets"],
        "refused-registration": ["started", *REGISTERED, "GetInfo OK", "1+2 sockets"],
        "driver-restart": [
            *(*[PREPARE] * 3, "SIGKILL", "exited -9"),
            *("started", *REGISTERED, *[PREPARE, UNPREPARE] * 3),
        ],
        "slice-deletion": [
            *("started", *REGISTERED, "1 slices", *[PREPARE] * 2, *[UNPREPARE] * 2, *[PREPARE] * 2),
            *(*REGISTERED, *STREAMED[:2], "DELETED by check", "ADDED by driver", "1 slices", *STREAMED[1:]),
            *[UNPREPARE] * 2,
        ],
        "api-server-down": [
            *("down", "started", *REGISTERED, "1 slices", *[PREPARE] * 2),
            *("down", *REGISTERED, *STREAMED, PREPARE, *[UNPREPARE] * 2, "up", *[PREPARE] * 2, *[UNPREPARE] * 2),
            *("down", "SIGTERM", "exited 0", "0+0 sockets", "up"),
        ],
    }
    assert set(outcomes(evidence).values()) == {"done"}


ENDS_EARLY = ("registration", "services", "claims", "end", "refused-registration", "driver-restart")


async def test_driver_that_exits_at_once_is_incomplete() -> None:
    evidence = await run(("false",), *ENDS_EARLY)
    assert outcomes(evidence) == dict.fromkeys(ENDS_EARLY, "incomplete")
    reason = next(one.what.reason for one in evidence.of(ExperimentEnded, "registration"))
    assert reason == "the driver exited with code 1"


async def test_driver_without_a_socket_is_incomplete() -> None:
    clock = JumpClock()
    async with flying(clock) as take_off:
        take_off.set()
        evidence = await run(("sleep", "1000"), *ENDS_EARLY, clock=clock)
    assert outcomes(evidence) == dict.fromkeys(ENDS_EARLY, "incomplete")


STUBBORN = "import signal, subprocess, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); subprocess.run(sys.argv[1:])"


async def test_driver_that_ignores_sigterm_is_killed(serve: tuple[str, ...]) -> None:
    clock = JumpClock()
    command = (sys.executable, "-c", STUBBORN, *serve)
    async with flying(clock) as take_off:

        def listener(_: str, event: Event) -> None:
            if isinstance(event, SignalSent) and event.signal == "SIGTERM":
                take_off.set()
            elif isinstance(event, SignalSent):
                take_off.clear()  # a killed process ends in real time

        evidence = await run(command, "registration", "end", clock=clock, listener=listener)
    assert story(evidence, "end")[:3] == ["SIGTERM", "SIGKILL", "exited -9"]


LEAVES_CHILD = "import os, subprocess, sys; subprocess.Popen(['sleep', '1000']); os.execvp(sys.argv[1], sys.argv[1:])"


async def test_child_that_outlives_a_terminated_driver_is_killed(serve: tuple[str, ...]) -> None:
    clock = JumpClock()
    async with flying(clock) as take_off:

        def listener(_: str, event: Event) -> None:
            if isinstance(event, ProcessExited):
                take_off.set()

        evidence = await run(
            (sys.executable, "-c", LEAVES_CHILD, *serve), "registration", "end", clock=clock, listener=listener
        )
    assert story(evidence, "end") == ["SIGTERM", "exited 0", "0+0 sockets"]
    assert [one.what.killed for one in evidence.of(ChildrenEnded, "end")] == [1]


async def test_output_is_measured_at_the_end_of_each_experiment() -> None:
    evidence = await run((sys.executable, "-c", "print('x' * 4999)"), "registration", "refused-registration")
    measured = {one.experiment: (one.what.process, one.what.size) for one in evidence.of(OutputMeasured)}
    assert measured == {"registration": ("main", 5000), "refused-registration": ("refused", 5000)}


async def test_driver_that_dies_makes_the_running_experiments_incomplete(serve: tuple[str, ...]) -> None:
    pids = []

    def listener(experiment: str, event: Event) -> None:
        if isinstance(event, ProcessStarted):
            pids.append(event.pid)
        if isinstance(event, StreamOpened) and experiment == "watch":
            os.kill(pids.pop(), signal.SIGKILL)

    names = ("registration", "services", "watch", "subscribers", "end")
    evidence = await run(serve, *names, listener=listener)
    expected = {"registration": "done", "services": "done", "subscribers": "incomplete"}
    assert outcomes(evidence) == {**expected, "watch": "incomplete", "end": "incomplete"}


DAEMON = "import socket, sys, time; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); time.sleep(600)"


async def test_sockets_of_a_helper_are_not_those_of_the_driver(serve: tuple[str, ...]) -> None:
    socket = "{plugins_dir}/daemon.sock"
    helper = {"command": (sys.executable, "-c", DAEMON, socket), "ready": socket}
    asked = run_with({"helper": [helper]}, serve, only=frozenset({"registration", "end"}))
    evidence = await run_experiments(asked, clock=JumpClock())
    named = [Path(path).name for one in evidence.of(SocketsListed) for path in one.what.plugins]
    assert (bool(named), "daemon.sock" in named) == (True, False)


# -- a driver that already runs


async def test_plan_of_faults_breaks_each_healthy_device_of_a_running_driver(tmp_path: Path) -> None:
    for folder in ("reg", "data", "cdi"):
        (tmp_path / folder).mkdir()
    file = tmp_path / "data/health/{device}"
    file.parent.mkdir()
    file.with_name("dev-1").write_text("Unhealthy since yesterday")
    faults = [{"name": "hot", "break": {"write": str(file), "text": "Unhealthy hot"}, "heal": {"remove": str(file)}}]
    driver = {"running": {"registry-dir": str(tmp_path / "reg")}}
    asked = DriverRun(
        profile_of({"driver": driver, "fault": [{**one, "settle": "1s"} for one in faults]}),
        level="core",
        only=frozenset({"registration", "services", "fault-plan"}),
    )
    around = Surroundings(
        "node-a", tmp_path / "reg", tmp_path / "data", tmp_path / "cdi", ApiServer(clock=SystemClock())
    )
    running = Healthy(around)
    serving = asyncio.create_task(running.run())
    try:
        evidence = await run_experiments(asked, adapters=FaultAdapters)
    finally:
        running.stopped.set()
        await serving
    assert {one.what.pool + "/" + one.what.device for one in evidence.of(FaultInjected)} == {
        "node-a/dev-0",
        "node-a/dev-2",
    }
    assert not_caused(evidence)[0] == "device node-a/dev-1: it was not healthy before the first fault"
    assert "moment right after start: drahealth did not start the driver" in not_caused(evidence)
