"""Init containers and sidecars on a node: order, restarts, end and status."""

from collections.abc import AsyncIterator

import pytest

from drahealth.fakes.cluster.api import PODS, Object
from drahealth.fakes.cluster.runtime import Container, ContainerState
from drahealth.suites.unit.manager.pod_world import World, main, phase, running_world, until, waits_for

CRASHES = ["sh", "-c", "exit 1"]
FIRST: Object = {"name": "first", "image": "image"}
SIDE: Object = {"name": "side", "image": "image", "restartPolicy": "Always"}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with running_world() as world:
        yield world


def states(pod: Object) -> dict[str, str]:
    """What each container does, init containers first."""
    status = pod["status"]
    found = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return {one["name"]: one["state"].get("waiting", {}).get("reason") or next(iter(one["state"])) for one in found}


def condition(pod: Object, kind: str) -> tuple[str, str, str]:
    found = next(one for one in pod["status"]["conditions"] if one["type"] == kind)
    return found["status"], found.get("reason", ""), found.get("message", "")


async def test_the_containers_wait_for_the_init_containers(world: World) -> None:
    uid = await world.pod(initContainers=[FIRST, SIDE])
    pod = await world.until_pod(lambda pod: states(pod).get("first") == "running")
    incomplete = "containers with incomplete status: [first side]"
    assert states(pod) == {"first": "running", "side": "PodInitializing", "main": "PodInitializing"}
    assert (phase(pod), condition(pod, "Initialized")) == ("Pending", ("False", "ContainersNotInitialized", incomplete))
    world.runtime.end(uid, "first", 0)
    pod = await world.until_pod(lambda pod: phase(pod) == "Running")
    assert states(pod) == {"first": "terminated", "side": "running", "main": "running"}
    assert [condition(pod, kind)[0] for kind in ("Initialized", "Ready")] == ["True", "True"]


async def test_a_failing_init_container_is_tried_again_with_back_off(world: World) -> None:
    await world.pod(initContainers=[{**FIRST, "command": CRASHES}])
    pod = await world.until_pod(lambda pod: states(pod).get("first") == "CrashLoopBackOff")
    assert (phase(pod), states(pod)["main"]) == ("Pending", "PodInitializing")
    attempts = len(world.runtime.containers())
    world.clock.jump(10)
    await until(lambda: max(c.config.attempt for c in world.runtime.containers()) == attempts)


async def test_a_pod_that_never_restarts_fails_with_its_init_container(world: World) -> None:
    await world.pod(initContainers=[{**FIRST, "command": CRASHES}], restartPolicy="Never")
    pod = await world.until_pod(lambda pod: phase(pod) == "Failed")
    assert states(pod) == {"first": "terminated", "main": "PodInitializing"}
    assert condition(pod, "Initialized")[0] == "False"


async def test_a_sidecar_that_ends_is_started_again_beside_the_others(world: World) -> None:
    uid = await world.pod(initContainers=[SIDE])
    await world.until_pod(lambda pod: phase(pod) == "Running")
    world.runtime.end(uid, "side", 0)
    pod = await world.until_pod(lambda pod: pod["status"]["initContainerStatuses"][0]["restartCount"] == 1)
    assert (phase(pod), states(pod), main(pod)["restartCount"]) == (
        "Running",
        {"side": "running", "main": "running"},
        0,
    )
    world.runtime.end(uid, "side", 1)
    pod = await world.until_pod(lambda pod: states(pod)["side"] == "CrashLoopBackOff")
    assert condition(pod, "Ready") == ("False", "ContainersNotReady", "containers with unready status: [side]")
    assert (phase(pod), condition(pod, "Initialized")[0]) == ("Running", "True")


async def test_sidecars_are_stopped_when_the_containers_have_ended(world: World) -> None:
    stopped: list[str] = []

    def note(container: Container) -> None:
        if container.state is ContainerState.EXITED:
            stopped.append(container.config.name)

    uid = await world.pod(initContainers=[SIDE, {**SIDE, "name": "other"}], restartPolicy="Never")
    await world.until_pod(lambda pod: phase(pod) == "Running")
    world.runtime.subscribe(note)
    world.runtime.end(uid, "main", 0)
    pod = await world.until_pod(lambda pod: phase(pod) == "Succeeded")
    assert (stopped, set(states(pod).values())) == (["main", "other", "side"], {"terminated"})
    ends = [one["state"]["terminated"]["exitCode"] for one in pod["status"]["initContainerStatuses"]]
    assert ends == [143, 143]


async def test_pod_deleted_during_initialization_is_removed(world: World) -> None:
    await world.pod(initContainers=[FIRST])
    await world.until_pod(lambda pod: states(pod).get("first") == "running")
    await world.api.delete(PODS, "train", "default")
    gone = await world.until_gone()
    assert (phase(gone), states(gone)) == ("Failed", {"first": "terminated", "main": "PodInitializing"})


async def test_an_init_container_gets_the_devices_of_its_claim_and_shows_them(world: World) -> None:
    claims = [{"name": "gpu"}]
    uid = await world.pod(claim=True, initContainers=[{**FIRST, "resources": {"claims": claims}}])
    await world.until_pod(lambda pod: states(pod).get("first") == "ClaimsNotReady")
    await world.allocate(uid)
    world.clock.jump(1)
    pod = await world.until_pod(lambda pod: states(pod).get("first") == "running")
    [first] = world.runtime.containers()
    assert first.config.cdi_devices == ("example.com/gpu=gpu-0",)
    [status] = pod["status"]["initContainerStatuses"]
    assert [entry["name"] for entry in status["allocatedResourcesStatus"]] == ["claim:gpu"]


async def test_new_worker_continues_after_the_old_one(world: World) -> None:
    uid = await world.pod(initContainers=[SIDE, FIRST])
    await world.until_pod(lambda pod: states(pod).get("first") == "running")
    await world.restart()
    world.runtime.end(uid, "first", 0)
    await world.until_pod(lambda pod: phase(pod) == "Running")
    await world.restart()
    world.runtime.end(uid, "side", 1)
    await until(
        lambda: [c.config.name for c in world.runtime.containers(state=ContainerState.RUNNING)] == ["main", "side"]
    )
    assert [(c.config.name, c.config.attempt) for c in world.runtime.containers()] == [
        ("side", 0),
        ("first", 0),
        ("main", 0),
        ("side", 1),
    ]


@pytest.mark.counterpart("alpha2/status-pod-level")
async def test_an_unused_claim_shows_in_the_status_of_the_pod_itself(world: World) -> None:
    uid = await world.pod(resourceClaims=[{"name": "gpu", "resourceClaimName": "train-gpu"}])
    await world.until_pod(lambda pod: waits_for(pod) == "ClaimsNotReady")
    await world.allocate(uid)
    world.clock.jump(1)
    pod = await world.until_pod(lambda pod: "allocatedResourcesStatus" in pod["status"])
    assert [entry["name"] for entry in pod["status"]["allocatedResourcesStatus"]] == ["claim:gpu"]
    assert "allocatedResourcesStatus" not in main(pod)
