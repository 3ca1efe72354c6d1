"""The Pods of a fleet: one watch for all hollow nodes, and the rules of the reference for each Pod."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

from drahealth.fakes.cluster.api import ListWatch, Object, WatchEvent
from drahealth.fakes.cluster.runtime import Container, ContainerRuntime, ContainerState
from drahealth.fakes.inventory.devices import cdi_id
from drahealth.manager.cache import Update
from drahealth.manager.calls import Context
from drahealth.manager.claims import PreparedClaim
from drahealth.manager.dra import DraManager
from drahealth.manager.manager import DeviceManager
from drahealth.manager.pod_worker.devices import PodDevices
from drahealth.manager.pod_worker.events import EventRecorder
from drahealth.manager.pod_worker.pod_status import PodEvent
from drahealth.manager.pod_worker.worker import Node, PodLifecycle, PodWorkers
from drahealth.manager.profile import Gates, Profile
from drahealth.proto.clock import Clock
from drahealth.proto.values import AllocatedClaim, DeviceId, PreparedDevice, Report

# The device manager of a hollow node: claims, health and statuses are those of the reference. The allocation of a
# claim takes the place of a driver's answer, and reports come from this process. It has no plugins and no files.

_NO_FILES = Path("/nonexistent")


class _HollowDra(DraManager):
    def __init__(self, root: Path, context: Context) -> None:
        super().__init__(root, context)
        self._allocated: dict[str, tuple[PreparedDevice, ...]] = {}

    def learn(self, claim: Object) -> None:
        """Takes the devices of a claim from its allocation."""
        status = claim.get("status") or {}
        results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
        self._allocated[claim["metadata"]["uid"]] = tuple(map(_prepared, results))

    def report(self, driver: str, report: Report) -> None:
        """Takes a report, as from a health stream."""
        self._reported(driver, report)

    def claims(self) -> Iterator[PreparedClaim]:
        """All prepared claims."""
        return iter(self._claims)

    def holders(self, device: DeviceId) -> frozenset[str]:
        """The UIDs of the Pods with the device."""
        return self._claims.pods_with([device])

    async def _prepare(self, claim: AllocatedClaim, known: PreparedClaim, pod_uid: str) -> None:
        devices = self._allocated.pop(claim.ref.uid, known.devices)
        self._claims.add(PreparedClaim(claim.ref, claim.drivers, devices, {pod_uid, *known.pods}))

    async def _unprepare(self, claim: PreparedClaim) -> None:
        """No driver needs to know."""

    def _save_claims(self) -> None:
        """A hollow node starts again from the API."""

    def _save(self, driver: str, update: Update) -> None:
        """The same for health."""


def _prepared(result: Object) -> PreparedDevice:
    """The device of an allocation, as the fake driver prepares it."""
    driver, device = result["driver"], result["device"]
    name = DeviceId(driver, result["pool"], device)
    return PreparedDevice(name, (result["request"],), (cdi_id(driver, device),), result.get("shareID"))


class _HollowDevices(DeviceManager):
    def __init__(self, profile: Profile, gates: Gates, clock: Clock) -> None:
        super().__init__(_NO_FILES, profile=profile, gates=gates, clock=clock, dra=_HollowDra)

    @property
    def dra(self) -> _HollowDra:
        return cast("_HollowDra", self._dra)


# The Pods of a hollow node.


class _HollowPodDevices(PodDevices):
    """Claims of a Pod whose devices come from their allocations."""

    async def _claim(self, name: str, namespace: str) -> Object:
        claim = await super()._claim(name, namespace)
        cast("_HollowDevices", self._devices).dra.learn(claim)
        return claim


class _HollowLifecycle(PodLifecycle):
    """Writes no status before the devices are prepared: that is one request later."""

    devices_type = _HollowPodDevices

    async def _run(self) -> None:
        self._devices.prepare()
        while not (self._devices.is_prepared or self._devices.problem or self._devices.refusal):
            await self._woken.wait()
            self._woken.clear()
        await super()._run()


class _NoEvents(EventRecorder):
    """A hollow node records no Events: they would double the number of writes."""

    def record(self, pod: Object, event: PodEvent) -> None:
        """Ignores it."""


class _HollowNode:
    """What the Pods of one hollow node share. It exists from the first Pod of the node."""

    def __init__(self, node: Node, devices: _HollowDevices, pods: "FleetPods") -> None:
        self.devices = devices
        self.node = node
        devices.subscribe(pods.wake)
        node.runtime.subscribe(lambda container: self._changed(container, pods))

    def _changed(self, container: Container, pods: "FleetPods") -> None:
        if container.state is ContainerState.EXITED:
            pods.wake({self.node.runtime.sandbox(container.sandbox_id).config.pod_uid})


Reports = Callable[[str], Iterable[tuple[str, Report]]]
"""Returns the report of each driver on a node."""


class FleetPods(PodWorkers):
    """Runs the Pods of all hollow nodes. `reports` are those of a node at its first Pod, and every `heartbeat` seconds.

    `api` must select the Pods that are bound to a node.
    """

    lifecycle = _HollowLifecycle

    def __init__(
        self,
        api: ListWatch,
        names: Iterable[str],
        reports: Reports,
        *,
        profile: Profile,
        gates: Gates,
        clock: Clock,
        heartbeat: float,
        resync: float,
    ) -> None:
        self._behavior = profile, gates, clock
        super().__init__(api, self._new_devices(), ContainerRuntime(clock), "of the fleet", clock, resync)
        self._names = frozenset(names)
        self._reports = reports
        self._heartbeat = heartbeat
        self._hollow: dict[str, _HollowNode] = {}
        self._observers: list[Callable[[], None]] = []

    def observe(self, changed: Callable[[], None]) -> None:
        """Calls `changed` after each change of a Pod; it must not block."""
        self._observers.append(changed)

    async def start(self) -> None:
        await super().start()
        if self._heartbeat:
            self._spawn(self._report_regularly())

    async def stop(self) -> None:
        await super().stop()
        for one in self._hollow.values():
            await one.node.runtime.close()
        self._hollow.clear()

    def report(self, node: str) -> None:
        """Reports the devices of a node. Without Pods there, nobody listens."""
        if hollow := self._hollow.get(node):
            for driver, report in self._reports(node):
                hollow.devices.dra.report(driver, report)

    def wake(self, pod_uids: Iterable[str]) -> None:
        """Requests a sync of these Pods."""
        self._wake(pod_uids)

    def prepared(self) -> tuple[str, ...]:
        """The UIDs of all prepared claims."""
        return tuple(claim.ref.uid for one in self._hollow.values() for claim in one.devices.dra.claims())

    def holders(self, device: DeviceId) -> Iterator[Object]:
        """The Pods with a device, which is in the pool of its node."""
        if hollow := self._hollow.get(device.pool):
            for uid in hollow.devices.dra.holders(device):
                if uid in self._pods:
                    yield self._pods[uid].pod.newest

    def _saw(self, event: WatchEvent) -> None:
        super()._saw(event)
        for changed in self._observers:
            changed()

    def _new_devices(self) -> _HollowDevices:
        return _HollowDevices(*self._behavior)

    def _is_ours(self, pod: Object) -> bool:
        return pod["spec"].get("nodeName") in self._names

    def _node_of(self, pod: Object) -> Node:
        name = pod["spec"]["nodeName"]
        if name not in self._hollow:
            devices, runtime = self._new_devices(), ContainerRuntime(self._clock)
            events = _NoEvents(self._api, self._clock, name)
            node = replace(self._node, devices=devices, runtime=runtime, events=events, health_events=False)
            self._hollow[name] = _HollowNode(node, devices, self)
            self.report(name)
        return self._hollow[name].node

    async def _report_regularly(self) -> None:
        """Spreads the reports of all nodes over the heartbeat."""
        while True:
            names = list(self._hollow)
            share = max(len(names) // _PARTS, 1)
            for start in range(0, len(names), share):
                for name in names[start : start + share]:
                    self.report(name)
                await self._clock.sleep(self._heartbeat / _PARTS)
            if not names:
                await self._clock.sleep(self._heartbeat)


_PARTS = 20
"""Parts of a heartbeat, in each of which a part of the nodes reports."""
