"""A node of `drahealth up` as a node for tests. Here it is the reference; `ci/step up` does it with a real kubelet."""

import asyncio
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from drahealth.fakes import CLAIMS, PODS
from drahealth.fakes.cluster.api import DEVICE_CLASSES, NAMESPACES, Kind
from drahealth.fakes.waiting import poll
from drahealth.suites import ConfigurationError, HarnessError, Pod, RunningNode
from drahealth.suites.nodes.running_node import RunningTarget, driver_name
from drahealth.suites.unit import command_process
from drahealth.suites.unit.command_process import COMMAND, run_pytest


@pytest.fixture(scope="module")
def state() -> Iterator[Path]:
    """The folder of a running node. Its path is short: it has sockets."""
    folder = Path("/tmp") / f"dh-r{os.getpid()}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DRAHEALTH_STATE", str(folder))
        patch.delenv("DRAHEALTH_SOCKET", raising=False)
        done = command_process.run(COMMAND, "up", "--reference")
        assert done.returncode == 0, done.stderr
        yield folder
        command_process.run(COMMAND, "down", "--all")
        shutil.rmtree(folder, ignore_errors=True)


def healths(pod: Pod) -> set[str]:
    """The healths of its device. An earlier test may still hold gpu-0."""
    return {device.health for device in pod.devices()}


@pytest.mark.usefixtures("state")
async def test_a_pod_shows_the_health_of_the_devices_of_the_node() -> None:
    async with RunningNode() as node:
        driver = await node.driver()
        pod = await node.run_pod_with_device(driver)
        await driver.inject("xid/79", "gpu-*")
        await pod.wait_until(lambda _: healths(pod) == {"Unhealthy"}, "is Unhealthy")
        assert [device.message[:6] for device in pod.devices()] == ["XID 79"]
        await driver.reset()
        await pod.wait_until(lambda _: healths(pod) == {"Healthy"}, "is Healthy")


@pytest.mark.usefixtures("state")
async def test_running_node_deletes_the_objects_of_a_test_and_continues() -> None:
    async with RunningNode() as node:
        await node.run_pod_with_device(await node.driver())
    async with RunningNode() as again:
        claims = [claim for claim in await again.api.list(CLAIMS) if "deletionTimestamp" not in claim["metadata"]]
        assert (await again.api.list(PODS), claims) == ([], [])


@pytest.mark.usefixtures("state")
async def test_the_kubelet_of_a_running_node_is_not_restarted() -> None:
    async with RunningNode() as node:
        with pytest.raises(HarnessError, match="LocalNode"):
            await node.restart_kubelet()


@pytest.mark.usefixtures("state")
async def test_unknown_node_name_is_rejected() -> None:
    with pytest.raises(ConfigurationError, match="there is no node other"):
        await RunningNode("other").__aenter__()


FIXTURES = """
import asyncio

def test_story(drahealth_async_node, drahealth_async_driver):
    async def story():
        async with drahealth_async_node as node, drahealth_async_driver as driver:
            assert node.name == "drahealth"
            pod = await node.run_pod_with_device(driver)
            await driver.inject("xid/79", "gpu-*")
            await pod.wait_until(lambda _: {device.health for device in pod.devices()} == {"Unhealthy"}, "is Unhealthy")

    asyncio.run(story())
"""


@pytest.mark.usefixtures("state")
def test_the_fixtures_use_the_named_node(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FIXTURES)
    options = ("-p", "no:asyncio", "-p", "no:anyio", "--drahealth-node=drahealth")
    run_pytest(pytester, *options).assert_outcomes(passed=1)
    rejected = run_pytest(pytester, *options, "--drahealth-target=kubelet")
    assert rejected.ret == pytest.ExitCode.USAGE_ERROR


FAILING = """
def test_fails(drahealth_node):
    pod = drahealth_node.run_pod_with_device()
    pod.wait_for_health(pod.device, "Unhealthy", timeout=0.1)
"""
ASYNC_FAILING = """
import asyncio

def test_fails(drahealth_async_node, drahealth_async_driver):
    async def story():
        async with drahealth_async_node as node, drahealth_async_driver as driver:
            await node.run_pod_with_device(driver)
            raise AssertionError

    asyncio.run(story())
"""
KILLED = """
import os, signal

def test_killed(drahealth_node):
    drahealth_node.run_pod_with_device()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.usefixtures("state")
async def test_next_test_removes_what_a_killed_test_left(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(KILLED)
    run = await asyncio.to_thread(run_pytest, pytester, "--drahealth-node=drahealth")
    assert run.ret == -signal.SIGKILL
    target = RunningTarget("drahealth")
    await target.start()
    try:
        [left] = [name for name in await names(target, NAMESPACES) if name.startswith("test-killed-")]
        driver = driver_name("gpu.example.com", left)
        assert driver in await names(target, DEVICE_CLASSES)
        async with RunningNode():
            pass

        async def gone() -> bool:
            return left not in await names(target, NAMESPACES) and driver not in await names(target, DEVICE_CLASSES)

        await asyncio.wait_for(poll(gone, 0.1), command_process.PATIENCE)
    finally:
        await target.stop()


async def names(target: RunningTarget, kind: Kind) -> set[str]:
    return {found["metadata"]["name"] for found in await target.api.list(kind)}


ASYNC_FAILING_LATER = """
import asyncio

def test_fails(drahealth_async_node):
    async def story():
        async with drahealth_async_node:
            pass

    asyncio.run(story())
    raise AssertionError
"""


async def namespaces() -> list[str]:
    """Those of failed tests. They are deleted."""
    async with RunningNode() as node:
        every = [found["metadata"]["name"] for found in await node.api.list(NAMESPACES)]
        kept = [name for name in every if name.startswith("test-fails-")]
        for name in kept:
            await node.api.delete(NAMESPACES, name)
    return kept


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(
    ("test", "options", "kept"),
    [
        (FAILING, ("--drahealth-keep",), 1),
        (ASYNC_FAILING, ("--drahealth-keep=failed",), 1),
        (ASYNC_FAILING_LATER, ("--drahealth-keep=failed",), 0),
        (FAILING, ("--drahealth-keep=never",), 0),
        (FAILING, (), 0),
    ],
    ids=["failed", "failed, with asyncio", "failed after the end", "never", "default"],
)
async def test_failed_test_keeps_its_namespace(
    pytester: pytest.Pytester, test: str, options: tuple[str, ...], kept: int
) -> None:
    pytester.makepyfile(test)
    run = run_pytest(pytester, "--drahealth-node=drahealth", *options)
    found = await namespaces()
    assert len(found) == kept
    assert run.stdout.str().count(f"namespace {found[0]}," if found else "kept on node") == kept


@pytest.mark.usefixtures("state")
def test_failed_test_shows_its_own_line(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FAILING)
    run = run_pytest(pytester, "--drahealth-node=drahealth")
    run.stdout.no_fnmatch_line("*anyio/from_thread.py*")
    run.stdout.fnmatch_lines([">*pod.wait_for_health*"])


CONDITION = """
def test_fails(drahealth_node):
    def shown(status):
        raise ValueError("of the condition")

    drahealth_node.run_pod_with_device().wait_until(shown, "shows it")
"""


@pytest.mark.usefixtures("state")
def test_failed_condition_shows_its_own_line(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(CONDITION)
    run = run_pytest(pytester, "--drahealth-node=drahealth")
    run.stdout.fnmatch_lines([">*raise ValueError*"])


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["one process", "distributed"])
def test_header_has_the_named_node(pytester: pytest.Pytester, options: tuple[str, ...]) -> None:
    pytester.makepyfile("def test_nothing(): pass")
    run = run_pytest(pytester, "--drahealth-node=drahealth", *options)
    assert [line for line in run.outlines if line.startswith("drahealth: ")] == [
        "drahealth: node drahealth of `drahealth up`: the reference"
    ]


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(
    ("options", "fact"),
    [
        (("--drahealth-node=other",), "no node other (nodes: drahealth)"),
        (("--drahealth-node=../x",), "'../x'"),
        (("--drahealth-node=",), "got ''"),
        (("--drahealth-node=drahealth", "--drahealth-keep", "x.py"), "got 'x.py'; write --drahealth-keep=failed"),
        (("--drahealth-node=drahealth", "--drahealth-profile=v1.36"), "--drahealth-profile"),
        (("--drahealth-keep=failed",), "add --drahealth-node"),
    ],
)
def test_option_of_a_named_node_is_checked_before_the_run(
    pytester: pytest.Pytester, options: tuple[str, ...], fact: str
) -> None:
    pytester.makepyfile(x="def test_nothing(drahealth_node): pass")
    run = run_pytest(pytester, *options)
    assert run.ret == pytest.ExitCode.USAGE_ERROR
    [error] = [line for line in run.errlines if line.startswith("ERROR: ")]
    assert fact in error


STOPPED = """
import pytest

from drahealth.suites.command import app

@pytest.mark.parametrize("call", ["inject", "run_pod_with_device", "add_driver", "delete", "nothing"])
def test_node_stops(drahealth_node, call):
    pod = drahealth_node.run_pod_with_device()
    app(["down", "--name", "short"], standalone_mode=False)
    if call == "inject":
        drahealth_node.driver.inject("xid/48", "gpu-0")
    elif call == "delete":
        pod.delete()
    elif call != "nothing":
        getattr(drahealth_node, call)()
"""


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(
    ("call", "errors"),
    [
        ("nothing", []),
        ("inject", ["E *ControlFailed: inject: node short has stopped; start it with `drahealth up --name short`"]),
        ("add_driver", ["E *Error: there is no node short (nodes: drahealth); `drahealth up --name short` creates it"]),
        ("delete", ["E *Error: there is no node short (nodes: drahealth)*"]),
        ("run_pod_with_device", ["E *Error: there is no node short (nodes: drahealth)*"]),
    ],
)
def test_node_that_stops_during_a_test_is_named(pytester: pytest.Pytester, call: str, errors: list[str]) -> None:
    assert command_process.run(COMMAND, "up", "--reference", "--name", "short").returncode == 0
    pytester.makepyfile(STOPPED)
    run = run_pytest(pytester, "--drahealth-node=short", "-k", call)
    run.stdout.fnmatch_lines_random(["there is no node short (nodes: drahealth)*", *errors])
    run.stdout.no_fnmatch_line("*During handling*")
