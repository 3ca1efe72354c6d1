"""A node for the tests of the pod worker: API server, runtime, and a hand-written device manager behind the seam."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from drahealth.fakes.clock import JumpClock
from drahealth.fakes.cluster.api import CLAIMS, PODS, Object
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.cluster.runtime import ContainerRuntime
from drahealth.manager.manager import DeviceManager
from drahealth.manager.pod_worker.worker import PodWorkers
from drahealth.proto.values import (
    AllocatedClaim,
    AllocatedResources,
    Amount,
    ClaimUse,
    DeviceId,
    Grant,
    Health,
    PodClaims,
    PreparedDevice,
    ResourceHealth,
    ResourceStatus,
)
from drahealth.suites.unit.endings import PATIENCE


class Devices(DeviceManager):
    """One without plugins and with one device a claim. `trouble` is raised by the call of that name."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.trouble: dict[str, Exception] = {}
        self.hangs = False
        self.health = Health.HEALTHY
        self.shared = False
        """Another pod holds each claim as well."""
        self.held: dict[str, set[str]] = {}
        self.wanted: dict[str, dict[str, int]] = {}
        self.announces = False
        self.node_has: dict[str, Amount] = {}
        self.notify_of_amounts: Callable[[], None] = lambda: None
        self.notify: Callable[[frozenset[str]], None] | None = None

    async def prepare(self, pod_uid: str, claims: Sequence[AllocatedClaim]) -> Mapping[str, tuple[PreparedDevice, ...]]:
        self._called("prepare")
        if self.hangs:
            await asyncio.Event().wait()
        self.held[pod_uid] = {claim.ref.uid for claim in claims}
        device = PreparedDevice(DeviceId("gpu.example.com", "node", "gpu-0"), cdi_ids=("example.com/gpu=gpu-0",))
        return {claim.ref.uid: (device,) for claim in claims}

    async def allocate(
        self, pod_uid: str, wanted: Mapping[str, Mapping[str, int]], init: Collection[str] = ()
    ) -> Mapping[str, Grant]:
        self._called("allocate")
        self.wanted = {name: dict(resources) for name, resources in wanted.items()}
        return {name: Grant(annotations={"note": name}, cdi_devices=(f"example.com/dp={name}",)) for name in wanted}

    def wants_pre_start(self, pod_uid: str, container: str) -> bool:
        return self.announces

    async def pre_start(self, pod_uid: str, container: str) -> None:
        self._called(f"pre-start {container}")

    def amounts(self) -> Mapping[str, Amount]:
        return self.node_has

    def subscribe_to_amounts(self, notify: Callable[[], None]) -> Callable[[], None]:
        self.notify_of_amounts = notify
        return lambda: None

    async def unprepare(self, pod_uid: str) -> None:
        self._called("unprepare")
        if not self.shared:
            self.held.pop(pod_uid, None)

    def pods(self) -> frozenset[str]:
        return frozenset(self.held)

    def forget(self, pod_uid: str) -> None:
        self._called("forget")

    def allocated_resources_status(self, pod_uid: str, uses: PodClaims) -> AllocatedResources:
        if "health" in self.trouble:
            raise self.trouble["health"]
        shown = (ResourceHealth("gpu-0", self.health),)
        held = self.held.get(pod_uid, ())

        def entries(used: Sequence[ClaimUse]) -> tuple[ResourceStatus, ...]:
            return tuple(ResourceStatus(f"claim:{use.name}", shown) for use in used if use.claim_uid in held)

        containers = {**uses.init_containers, **uses.containers}
        return AllocatedResources({name: entries(used) for name, used in containers.items()}, entries(uses.unused))

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
        async with asyncio.timeout(PATIENCE):
            async for event in self.api.watch(PODS, "default"):
                if event.object["metadata"]["name"] == name and true(event.object):
                    return event.object
        raise AssertionError("the watch ended")

    async def changes_since(self, pod: Object, true: Callable[[Object], bool]) -> list[Object]:
        """The pod after each change since then, up to the first match."""
        changes = []
        async with asyncio.timeout(PATIENCE):
            async for event in self.api.watch(PODS, "default", since=pod["metadata"]["resourceVersion"]):
                changes.append(event.object)
                if true(event.object):
                    return changes
        raise AssertionError("the watch ended")

    async def until_gone(self, name: str = "train") -> Object:
        """The last state of the pod, once it is deleted."""
        async with asyncio.timeout(PATIENCE):
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


@asynccontextmanager
async def running_world() -> AsyncIterator[World]:
    world = World()
    await world.workers.start()
    yield world
    await world.workers.stop()
    await world.runtime.close()
