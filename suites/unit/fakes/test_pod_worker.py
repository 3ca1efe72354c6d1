"""The pods of a node, driven against the in-memory API server, with a hand-written device manager behind the seam."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import pytest

from drahealth.fakes.api import CLAIMS, NODES, PODS, Object
from drahealth.fakes.api_server import ApiServer
from drahealth.fakes.clock import JumpClock
from drahealth.fakes.containers import ContainerRuntime, SandboxConfig
from drahealth.fakes.pod_worker import PodWorkers
from drahealth.proto.values import (
    AllocatedClaim,
    ClaimUse,
    DeviceId,
    Health,
    PreparedDevice,
    ResourceHealth,
    ResourceStatus,
)

CRASHES = ("sh", "-c", "exit 1")


class Devices:
    """A device manager with one device a claim; `calls` in order, `trouble` is raised by the call of that name."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.trouble: dict[str, Exception] = {}
        self.hangs = False
        self.health = Health.HEALTHY
        self.held: dict[str, set[str]] = {}
        self.notify: Callable[[frozenset[str]], None] | None = None

    async def prepare(self, pod_uid: str, claims: Sequence[AllocatedClaim]) -> Mapping[str, Sequence[PreparedDevice]]:
        self._called("prepare")
        if self.hangs:
            await asyncio.Event().wait()
        self.held[pod_uid] = {claim.ref.uid for claim in claims}
        device = PreparedDevice(DeviceId("gpu.example.com", "node", "gpu-0"), cdi_ids=("example.com/gpu=gpu-0",))
        return {claim.ref.uid: [device] for claim in claims}

    async def unprepare(self, pod_uid: str) -> None:
        self._called("unprepare")
        self.held.pop(pod_uid, None)

    def forget(self, pod_uid: str) -> None:
        self._called("forget")

    def allocated_resources_status(
        self, pod_uid: str, containers: Mapping[str, Sequence[ClaimUse]]
    ) -> Mapping[str, tuple[ResourceStatus, ...]]:
        if "health" in self.trouble:
            raise self.trouble["health"]
        shown = (ResourceHealth("gpu-0", self.health),)
        return {
            name: tuple(ResourceStatus(f"claim:{use.name}", shown) for use in uses)
            for name, uses in containers.items()
            if any(use.claim_uid in self.held.get(pod_uid, ()) for use in uses)
        }

    def subscribe(self, notify: Callable[[frozenset[str]], None]) -> Callable[[], None]:
        self.notify = notify

        def leave() -> None:
            self.notify = None

        return leave

    def become(self, health: Health) -> None:
        self.health = health
        if self.notify:
            self.notify(frozenset(self.held))

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if name in self.trouble:
            raise self.trouble[name]


class World:
    """A node and what surrounds it."""

    def __init__(self) -> None:
        self.clock = JumpClock()
        self.api = ApiServer(clock=self.clock)
        self.devices = Devices()
        self.runtime = ContainerRuntime(self.clock)
        self.workers = self.new_workers()

    def new_workers(self) -> PodWorkers:
        return PodWorkers(self.api, self.devices, self.runtime, "node-a", clock=self.clock)

    async def restart(self) -> None:
        await self.workers.stop()
        self.workers = self.new_workers()
        await self.workers.start()

    async def pod(self, name: str = "train", claim: bool = False, command: Sequence[str] = (), **spec: Any) -> str:
        """A pod on the node, and its uid; with `claim`, one that waits for `allocate`."""
        container: Object = {"name": "main", "image": "image", "command": list(command)}
        if claim:
            container["resources"] = {"claims": [{"name": "gpu"}]}
            spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]
        manifest = {"metadata": {"name": name, "namespace": "default"}}
        spec = {"nodeName": "node-a", "containers": [container], **spec}
        uid: str = (await self.api.create(PODS, {**manifest, "spec": spec}))["metadata"]["uid"]
        return uid

    async def allocate(self, uid: str, name: str = "train") -> None:
        claim = await self.api.create(
            CLAIMS, {"metadata": {"name": f"{name}-gpu", "namespace": "default"}, "spec": {"devices": {}}}
        )
        results = [{"driver": "gpu.example.com", "pool": "node", "device": "gpu-0", "request": "gpu"}]
        status = {"allocation": {"devices": {"results": results}}, "reservedFor": [{"uid": uid, "resource": "pods"}]}
        await self.api.replace_status(CLAIMS, {**claim, "status": status})

    async def running_with_a_gpu(self, **spec: Any) -> str:
        uid = await self.pod(claim=True, **spec)
        await self.allocate(uid)
        await self.until_pod(lambda pod: shown(pod) == ["Healthy"])
        return uid

    async def get(self, name: str = "train") -> Object:
        return await self.api.get(PODS, name, "default")

    async def until_pod(self, true: Callable[[Object], bool], name: str = "train") -> Object:
        """The pod, once a watcher of the API sees it so."""
        async with asyncio.timeout(10):
            async for event in self.api.watch(PODS, "default"):
                if event.object["metadata"]["name"] == name and true(event.object):
                    return event.object
        raise AssertionError("the watch ended")

    async def until_gone(self, name: str = "train") -> Object:
        """The last state of the pod, once it is deleted."""
        async with asyncio.timeout(10):
            async for event in self.api.watch(PODS, "default"):
                if event.type == "DELETED" and event.object["metadata"]["name"] == name:
                    return event.object
        raise AssertionError("the watch ended")


async def until(true: Callable[[], bool]) -> None:
    deadline = asyncio.get_running_loop().time() + 10
    while not true():
        assert asyncio.get_running_loop().time() < deadline, "it did not come true"
        await asyncio.sleep(0.001)


def phase(pod: Object) -> str:
    return str(pod["status"]["phase"])


def main(pod: Object) -> Object:
    """The status of the one container."""
    statuses = pod["status"].get("containerStatuses") or [{"state": {}, "lastState": {}}]
    status: Object = statuses[0]
    return status


def waits_for(pod: Object) -> str:
    return str(main(pod)["state"].get("waiting", {}).get("reason", ""))


def shown(pod: Object) -> list[str]:
    entries = main(pod).get("allocatedResourcesStatus") or ()
    return [resource["health"] for entry in entries for resource in entry["resources"]]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    await world.workers.start()
    yield world
    await world.workers.stop()
    await world.runtime.close()


async def test_a_pod_without_claims_runs(world: World) -> None:
    await world.pod()
    pod = await world.until_pod(lambda pod: phase(pod) == "Running")
    conditions = {condition["type"]: condition["status"] for condition in pod["status"]["conditions"]}
    assert set(conditions.values()) == {"True"}
    assert (main(pod)["ready"], main(pod)["image"], pod["status"]["podIP"]) == (True, "image", "127.0.0.1")
    assert world.devices.calls == []


async def test_pods_of_other_nodes_are_left_alone(world: World) -> None:
    await world.pod("elsewhere", nodeName="node-b")
    await world.pod()
    await world.until_pod(lambda pod: phase(pod) == "Running")
    assert [sandbox.config.pod_name for sandbox in world.runtime.sandboxes()] == ["train"]


async def test_a_pod_that_is_bound_later_runs_too(world: World) -> None:
    await world.api.create(NODES, {"metadata": {"name": "node-a"}})
    await world.pod(nodeName="")
    await world.api.bind("train", "default", "node-a")
    await world.until_pod(lambda pod: phase(pod) == "Running")


async def test_a_pod_waits_for_its_claim_and_gets_its_devices(world: World) -> None:
    uid = await world.pod(claim=True)
    waiting = await world.until_pod(lambda pod: waits_for(pod) == "FailedPrepareDynamicResources")
    await world.allocate(uid)
    world.clock.jump(1)
    await world.until_pod(lambda pod: shown(pod) == ["Healthy"])
    [container] = world.runtime.containers()
    assert (phase(waiting), "not found" in main(waiting)["state"]["waiting"]["message"]) == ("Pending", True)
    assert container.config.cdi_devices == ("example.com/gpu=gpu-0",)


async def test_a_failed_preparation_is_told_and_tried_again(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.devices.trouble["prepare"] = RuntimeError("no driver gpu.example.com is registered")
    uid = await world.pod(claim=True)
    await world.allocate(uid)
    pod = await world.until_pod(lambda pod: "registered" in main(pod)["state"].get("waiting", {}).get("message", ""))
    await until(lambda: world.devices.calls.count("prepare") >= 3)
    del world.devices.trouble["prepare"]
    world.clock.jump(10)
    await world.until_pod(lambda pod: phase(pod) == "Running")
    assert phase(pod) == "Pending"
    assert caplog.text.count("no driver gpu.example.com is registered") == 1


async def test_a_change_of_health_is_pushed(world: World) -> None:
    await world.running_with_a_gpu()
    world.devices.become(Health.UNHEALTHY)
    await world.until_pod(lambda pod: shown(pod) == ["Unhealthy"])


async def test_a_flood_of_changes_is_one_sync(world: World) -> None:
    await world.running_with_a_gpu()
    before = int((await world.get())["metadata"]["resourceVersion"])
    for _ in range(100):
        world.devices.become(Health.UNKNOWN)
        world.devices.become(Health.UNHEALTHY)
    pod = await world.until_pod(lambda pod: shown(pod) == ["Unhealthy"])
    assert int(pod["metadata"]["resourceVersion"]) == before + 1


async def test_what_nobody_notified_shows_at_the_next_resync(world: World) -> None:
    await world.running_with_a_gpu()
    world.devices.health = Health.UNKNOWN
    world.clock.jump(59)
    for _ in range(10):
        await asyncio.sleep(0)
    before = shown(await world.get())
    world.clock.jump(1)
    await world.until_pod(lambda pod: shown(pod) == ["Unknown"])
    assert before == ["Healthy"]


@pytest.mark.parametrize(("code", "end"), [(0, "Succeeded"), (3, "Failed")])
async def test_a_pod_that_ends_gives_its_devices_back_first(world: World, code: int, end: str) -> None:
    uid = await world.running_with_a_gpu(restartPolicy="Never")
    world.runtime.end(uid, "main", code)
    ended = await world.until_pod(lambda pod: "terminated" in main(pod)["state"])
    pod = await world.until_pod(lambda pod: phase(pod) == end)
    assert (phase(ended), shown(ended)) == ("Running", ["Healthy"])
    assert (main(pod)["state"]["terminated"]["exitCode"], shown(pod)) == (code, [])
    assert world.devices.calls[-1:] == ["unprepare"]


async def test_a_pod_that_ended_is_kept_until_it_is_deleted(world: World) -> None:
    uid = await world.running_with_a_gpu(restartPolicy="Never")
    world.runtime.end(uid, "main", 0)
    await world.until_pod(lambda pod: phase(pod) == "Succeeded")
    await world.api.delete(PODS, "train", "default")
    await until(lambda: world.devices.calls[-1] == "forget")
    assert world.devices.calls.count("unprepare") == 1
    assert world.runtime.sandboxes() == []


async def test_a_crash_loop_backs_off_and_goes_on(world: World) -> None:
    await world.pod(command=CRASHES)
    first = await world.until_pod(lambda pod: waits_for(pod) == "CrashLoopBackOff")
    world.clock.jump(10)
    second = await world.until_pod(lambda pod: waits_for(pod) == "CrashLoopBackOff" and main(pod)["restartCount"] == 2)
    assert (phase(first), main(first)["restartCount"]) == ("Running", 1)
    assert [main(pod)["state"]["waiting"]["message"].split(" ")[1] for pod in (first, second)] == ["10s", "20s"]
    assert main(second)["lastState"]["terminated"]["exitCode"] == 1
    assert sorted(container.config.attempt for container in world.runtime.containers()) == [1, 2]


@pytest.mark.parametrize(("code", "after"), [(0, "Succeeded"), (1, "Running")])
async def test_on_failure_restarts_only_what_failed(world: World, code: int, after: str) -> None:
    uid = await world.pod(restartPolicy="OnFailure")
    await world.until_pod(lambda pod: phase(pod) == "Running")
    world.runtime.end(uid, "main", code)
    pod = await world.until_pod(
        lambda pod: phase(pod) == "Succeeded" or (main(pod)["restartCount"] == 1 and "running" in main(pod)["state"])
    )
    assert phase(pod) == after


async def test_a_deleted_pod_stops_gives_back_and_goes(world: World) -> None:
    await world.running_with_a_gpu()
    await world.api.delete(PODS, "train", "default")
    last = await world.until_gone()
    await until(lambda: world.devices.calls[-1] == "forget")
    assert (phase(last), main(last)["state"]["terminated"]["exitCode"]) == ("Failed", 143)
    assert world.devices.calls[-2:] == ["unprepare", "forget"]
    assert (world.runtime.sandboxes(), world.runtime.containers()) == ([], [])


async def test_a_pod_that_is_removed_at_once_is_cleaned_up(world: World) -> None:
    await world.running_with_a_gpu()
    await world.api.delete(PODS, "train", "default", grace=0)
    await until(lambda: world.devices.calls[-2:] == ["unprepare", "forget"])
    assert world.runtime.containers() == []


async def test_a_pod_whose_devices_cannot_be_given_back_stays_and_shows_its_health(world: World) -> None:
    await world.running_with_a_gpu()
    world.devices.trouble["unprepare"] = RuntimeError("the driver is away")
    await world.api.delete(PODS, "train", "default")
    await until(lambda: world.devices.calls.count("unprepare") >= 2)
    world.devices.become(Health.UNHEALTHY)
    pod = await world.until_pod(lambda pod: shown(pod) == ["Unhealthy"])
    del world.devices.trouble["unprepare"]
    world.clock.jump(10)
    await world.until_gone()
    assert (phase(pod), "terminated" in main(pod)["state"]) == ("Running", True)


async def test_a_pod_can_be_deleted_while_its_driver_hangs(world: World) -> None:
    world.devices.hangs = True
    uid = await world.pod(claim=True)
    await world.allocate(uid)
    await until(lambda: world.devices.calls == ["prepare"])
    await world.api.delete(PODS, "train", "default")
    assert phase(await world.until_gone()) == "Failed"


async def test_finalizers_hold_a_deleted_pod_in_the_api_only(world: World) -> None:
    await world.running_with_a_gpu()
    pod = await world.get()
    await world.api.replace(PODS, {**pod, "metadata": {**pod["metadata"], "finalizers": ["example.com/x"]}})
    await world.api.delete(PODS, "train", "default")
    held = await world.until_pod(lambda pod: pod["metadata"].get("deletionGracePeriodSeconds") == 0)
    calls = list(world.devices.calls)
    await world.api.replace(PODS, {**held, "metadata": {**held["metadata"], "finalizers": []}})
    await until(lambda: world.devices.calls[-1] == "forget")
    assert (phase(held), calls[-1]) == ("Failed", "unprepare")


async def test_a_pod_with_init_containers_is_refused(world: World) -> None:
    await world.pod(initContainers=[{"name": "first"}])
    pod = await world.until_pod(lambda pod: phase(pod) == "Failed")
    assert pod["status"]["reason"] == "UnsupportedPod"
    assert world.runtime.sandboxes() == []


async def test_a_pod_that_someone_else_ended_is_stopped(world: World) -> None:
    await world.running_with_a_gpu()
    pod = await world.get()
    evicted = {**pod["status"], "phase": "Failed", "reason": "Evicted"}
    await world.api.replace_status(PODS, {**pod, "status": evicted})
    await until(lambda: world.devices.calls[-1] == "unprepare")
    assert [container.state for container in world.runtime.containers()] == ["exited"]
    assert (await world.get())["status"] == evicted


async def test_a_new_worker_takes_up_what_runs(world: World) -> None:
    uid = await world.running_with_a_gpu()
    world.runtime.end(uid, "main", 1)
    before = await world.until_pod(lambda pod: main(pod)["restartCount"] == 1 and main(pod)["ready"])
    await world.restart()
    await until(lambda: world.devices.calls == ["prepare", "prepare"])
    world.devices.become(Health.UNHEALTHY)
    after = await world.until_pod(lambda pod: shown(pod) == ["Unhealthy"])
    assert main(after)["containerID"] == main(before)["containerID"]
    assert int(after["metadata"]["resourceVersion"]) == int(before["metadata"]["resourceVersion"]) + 1


async def test_a_stopped_worker_leaves_all_as_it_is(world: World) -> None:
    await world.running_with_a_gpu()
    before = await world.get()
    await world.workers.stop()
    world.clock.jump(300)
    assert (await world.get(), world.devices.calls, world.devices.notify) == (before, ["prepare"], None)
    assert [container.state for container in world.runtime.containers()] == ["running"]
    assert [task for task in asyncio.all_tasks() if "Pod" in repr(task.get_coro())] == []


async def test_a_new_worker_leaves_ended_pods_alone(world: World) -> None:
    uid = await world.running_with_a_gpu(restartPolicy="Never")
    world.runtime.end(uid, "main", 0)
    before = await world.until_pod(lambda pod: phase(pod) == "Succeeded")
    await world.restart()
    await world.pod("next")
    await world.until_pod(lambda pod: phase(pod) == "Running", "next")
    assert (await world.get(), world.devices.calls) == (before, ["prepare", "unprepare"])


async def test_a_new_worker_ends_what_was_deleted_meanwhile(world: World) -> None:
    await world.running_with_a_gpu()
    await world.workers.stop()
    await world.api.delete(PODS, "train", "default", grace=0)
    world.runtime.run_sandbox(SandboxConfig("unheard", "default", "of"))
    await world.restart()
    await until(lambda: world.runtime.sandboxes() == [])
    assert sorted(world.devices.calls[1:]) == ["forget", "forget", "unprepare", "unprepare"]


async def test_nothing_is_lost_while_the_api_is_away(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    uid = await world.running_with_a_gpu(restartPolicy="Never")
    world.api.down()
    world.devices.become(Health.UNHEALTHY)
    world.runtime.end(uid, "main", 7)
    await until(lambda: "cannot write its status" in caplog.text and "cannot watch" in caplog.text)
    for _ in range(5):
        world.clock.jump(10)
        await asyncio.sleep(0)
    world.api.up()
    world.clock.jump(10)
    pod = await world.until_pod(lambda pod: phase(pod) == "Failed")
    assert main(pod)["state"]["terminated"]["exitCode"] == 7
    assert len(caplog.records) == 2


async def test_pods_that_came_and_went_while_the_api_restarted_are_seen(world: World) -> None:
    await world.running_with_a_gpu()
    world.api.restart()
    await world.api.delete(PODS, "train", "default", grace=0)
    await world.pod("next")
    world.clock.jump(1)
    await world.until_pod(lambda pod: phase(pod) == "Running", "next")
    await until(lambda: world.devices.calls[-1] == "forget")


async def test_a_status_that_the_api_refuses_is_tried_again(world: World, caplog: pytest.LogCaptureFixture) -> None:
    await world.running_with_a_gpu()
    world.devices.become("bad")  # type: ignore[arg-type]
    await until(lambda: "Unsupported value" in caplog.text)
    world.devices.health = Health.UNHEALTHY
    world.clock.jump(1)
    await world.until_pod(lambda pod: shown(pod) == ["Unhealthy"])
    assert caplog.text.count("cannot write its status") == 1


async def test_a_fault_in_a_sync_is_told_and_lived_through(world: World, caplog: pytest.LogCaptureFixture) -> None:
    await world.running_with_a_gpu()
    world.devices.trouble["health"] = RuntimeError("a fault")
    world.devices.become(Health.UNHEALTHY)
    await until(lambda: "a fault" in caplog.text)
    del world.devices.trouble["health"]
    world.clock.jump(10)
    await world.until_pod(lambda pod: shown(pod) == ["Unhealthy"])


def test_a_resync_without_time_is_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        PodWorkers(ApiServer(), Devices(), ContainerRuntime(), "node-a", resync=0)
