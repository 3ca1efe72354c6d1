"""The container runtime without containers."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from drahealth.fakes.clock import JumpClock
from drahealth.fakes.cluster.runtime import (
    Container,
    ContainerConfig,
    ContainerRuntime,
    ContainerState,
    Sandbox,
    SandboxConfig,
    SandboxState,
    UnknownIdError,
    WrongStateError,
)

POD = SandboxConfig("train", "default", "uid-1", labels={"app": "train"})
STAYS = ContainerConfig("main", "image", cdi_devices=("vendor.example/gpu=0",), labels={"tier": "gpu"})


def script(text: str) -> ContainerConfig:
    return ContainerConfig("main", "image", command=("sh", "-c"), args=(text,))


@pytest.fixture
def clock() -> JumpClock:
    return JumpClock()


@pytest.fixture
async def runtime(clock: JumpClock) -> AsyncIterator[ContainerRuntime]:
    runtime = ContainerRuntime(clock)
    yield runtime
    await runtime.close()


@pytest.fixture
def sandbox(runtime: ContainerRuntime) -> Sandbox:
    return runtime.run_sandbox(POD)


def start(runtime: ContainerRuntime, sandbox: Sandbox, config: ContainerConfig = STAYS) -> str:
    container = runtime.create_container(sandbox.id, config)
    runtime.start_container(container.id)
    return container.id


async def settle() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_container_is_created_then_running_then_exited(runtime: ContainerRuntime, sandbox: Sandbox) -> None:
    created = runtime.create_container(sandbox.id, STAYS)
    runtime.start_container(created.id)
    running = runtime.container(created.id)
    runtime.end("uid-1", "main", 3)
    exited = runtime.container(created.id)
    assert [c.state for c in (created, running, exited)] == ["created", "running", "exited"]
    assert (exited.exit_code, exited.reason) == (3, "Error")
    assert 0 < exited.created <= exited.started <= exited.finished


async def test_a_script_exits_when_its_time_is_over(
    runtime: ContainerRuntime, sandbox: Sandbox, clock: JumpClock
) -> None:
    container_id = start(runtime, sandbox, script("sleep 20; exit 7"))
    await settle()
    clock.jump(19)
    await settle()
    before = runtime.container(container_id).state
    clock.jump(1)
    await settle()
    after = runtime.container(container_id)
    assert (before, after.state, after.exit_code) == ("running", "exited", 7)
    assert after.finished - after.started == pytest.approx(20e9, abs=1e9)


async def test_script_time_counts_from_the_start(runtime: ContainerRuntime, sandbox: Sandbox, clock: JumpClock) -> None:
    container_id = start(runtime, sandbox, script("sleep 20; exit 7"))
    clock.jump(20)
    await settle()
    assert runtime.container(container_id).exit_code == 7


async def test_script_without_sleep_exits_at_start(runtime: ContainerRuntime, sandbox: Sandbox) -> None:
    seen: list[tuple[str, int]] = []
    runtime.subscribe(lambda container: seen.append((container.state, container.exit_code)))
    start(runtime, sandbox, script("exit 1"))
    assert seen == [("running", 0), ("exited", 1)]


async def test_stopped_container_leaves_no_sleeper_on_the_clock(
    runtime: ContainerRuntime, sandbox: Sandbox, clock: JumpClock
) -> None:
    container_id = start(runtime, sandbox, script("sleep 20; exit 7"))
    await settle()
    runtime.stop_container(container_id, grace=30)
    stopped = runtime.container(container_id)
    clock.jump(60)
    await settle()
    assert stopped.exit_code == 143
    assert runtime.container(container_id) == stopped
    assert (runtime._lives, clock._sleepers) == ({}, [])


async def test_stopping_again_changes_nothing(runtime: ContainerRuntime, sandbox: Sandbox) -> None:
    container_id = start(runtime, sandbox)
    runtime.stop_container(container_id, grace=0)
    killed = runtime.container(container_id)
    runtime.stop_container(container_id, grace=30)
    assert (runtime.container(container_id), killed.exit_code) == (killed, 137)


async def test_a_created_container_that_is_stopped_can_still_be_removed(
    runtime: ContainerRuntime, sandbox: Sandbox
) -> None:
    created = runtime.create_container(sandbox.id, STAYS)
    runtime.stop_container(created.id, grace=0)
    assert runtime.containers() == [created]
    runtime.remove_container(created.id)
    assert runtime.containers() == []


async def test_a_sandbox_takes_its_containers_with_it(runtime: ContainerRuntime, sandbox: Sandbox) -> None:
    container_id = start(runtime, sandbox)
    runtime.stop_sandbox(sandbox.id)
    states = (runtime.sandbox(sandbox.id).state, runtime.container(container_id).state)
    runtime.remove_sandbox(sandbox.id)
    assert states == (SandboxState.NOT_READY, ContainerState.EXITED)
    assert (runtime.sandboxes(), runtime.containers()) == ([], [])


async def test_lists_match_all_filters(runtime: ContainerRuntime, sandbox: Sandbox) -> None:
    other = runtime.run_sandbox(SandboxConfig("other", "default", "uid-2"))
    first, second = start(runtime, sandbox), start(runtime, other, script("exit 0"))

    def ids(found: list[Container]) -> list[str]:
        return [container.id for container in found]

    assert ids(runtime.containers()) == [first, second]
    assert ids(runtime.containers(state=ContainerState.EXITED)) == [second]
    assert ids(runtime.containers(labels={"tier": "gpu"}, sandbox_id=sandbox.id, pod_uid="uid-1")) == [first]
    assert ids(runtime.containers(labels={"tier": "gpu"}, sandbox_id=other.id)) == []
    assert runtime.sandboxes(labels={"app": "train"}, state=SandboxState.READY) == [sandbox]
    assert runtime.sandboxes(sandbox_id=other.id, pod_uid="uid-1") == []


async def test_unsubscribed_function_is_not_called(runtime: ContainerRuntime, sandbox: Sandbox) -> None:
    seen: list[str] = []
    leave = runtime.subscribe(lambda container: seen.append(container.state))
    start(runtime, sandbox)
    leave()
    leave()
    runtime.end("uid-1", "main", 0)
    assert seen == ["running"]


async def test_closing_ends_every_wait(runtime: ContainerRuntime, sandbox: Sandbox, clock: JumpClock) -> None:
    start(runtime, sandbox, script("sleep 20"))
    await settle()
    await runtime.close()
    assert clock._sleepers == []
    assert [container.state for container in runtime.containers()] == ["running"]


async def test_unknown_id_is_named_in_the_error(runtime: ContainerRuntime, sandbox: Sandbox) -> None:
    start(runtime, sandbox, script("exit 0"))
    with pytest.raises(UnknownIdError, match=r"^unknown sandbox 'x'$"):
        runtime.stop_sandbox("x")
    with pytest.raises(UnknownIdError, match=r"^unknown container 'x'$"):
        runtime.start_container("x")
    with pytest.raises(UnknownIdError, match=r"^pod uid-1 has no running container 'main' to end$"):
        runtime.end("uid-1", "main", 1)


async def test_operation_in_the_wrong_state_is_rejected(runtime: ContainerRuntime, sandbox: Sandbox) -> None:
    container_id = start(runtime, sandbox)
    with pytest.raises(WrongStateError, match="is running; only a created one can be started"):
        runtime.start_container(container_id)
    runtime.stop_sandbox(sandbox.id)
    with pytest.raises(WrongStateError, match="is not ready"):
        runtime.create_container(sandbox.id, STAYS)
