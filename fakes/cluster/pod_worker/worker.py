"""The small part of a kubelet around its device manager: it runs the pods of a node, and writes the node's status."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from contextlib import aclosing
from typing import Any

from drahealth.fakes.cluster.api import NODES, PODS, Api, ApiError, ListWatch, Object, WatchEvent
from drahealth.fakes.cluster.pod_worker.devices import DeviceManager
from drahealth.fakes.cluster.pod_worker.events import EventRecorder
from drahealth.fakes.cluster.pod_worker.lifecycle import Node, PodLifecycle
from drahealth.fakes.cluster.pod_worker.pod_object import PodObject
from drahealth.fakes.cluster.runtime import Container, ContainerRuntime, ContainerState
from drahealth.fakes.waiting import Retry, cancel_and_wait, first_of
from drahealth.proto.clock import Clock, SystemClock

# The node's status: its extended resources, as its device manager counts them.

PERIOD = 10.0
"""Seconds between checks without a change, as in kubelets."""

log = logging.getLogger(__name__)


class NodeStatus:
    """Keeps `status.capacity` and `status.allocatable` of the node current; other resources stay unchanged."""

    def __init__(self, api: Api, devices: DeviceManager, node: str, clock: Clock) -> None:
        self._api = api
        self._devices = devices
        self._node = node
        self._clock = clock
        self._ours: set[str] = set()
        self._complaint = ""

    async def run(self) -> None:
        """Runs until cancelled."""
        changed = asyncio.Event()
        leave = self._devices.subscribe_to_amounts(changed.set)
        try:
            while True:
                changed.clear()
                await self._write_safely()
                await first_of(changed.wait(), self._clock.sleep(PERIOD))
        finally:
            leave()

    async def _write_safely(self) -> None:
        try:
            await self._write()
            self._complaint = ""
        except ApiError as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                log.warning("status of node %s: %s; retrying in %g s", self._node, error, PERIOD)

    async def _write(self) -> None:
        amounts = self._devices.amounts()
        self._ours |= amounts.keys()
        if not self._ours:
            return
        node = await self._api.get(NODES, self._node)
        status = node.get("status") or {}
        capacity = {name: str(amount.capacity) for name, amount in amounts.items()}
        allocatable = {name: str(amount.allocatable) for name, amount in amounts.items()}
        new = {
            **status,
            "capacity": self._with(status.get("capacity"), capacity),
            "allocatable": self._with(status.get("allocatable"), allocatable),
        }
        if new != status:
            await self._api.replace_status(NODES, {**node, "status": new})

    def _with(self, old: Object | None, ours: Object) -> Object:
        return {**{name: value for name, value in (old or {}).items() if name not in self._ours}, **ours}


# The small part of a kubelet around its device manager: it runs the pods of a node, one task each.
#
# It watches the pods of its node, prepares their claims with a `DeviceManager`, runs their containers in a
# `ContainerRuntime` and keeps each pod's status current in the API. A stopped worker leaves runtime and API
# unchanged; a new one on the same runtime takes over the running containers.

__all__ = ["DeviceManager", "PodWorkers"]


class PodWorkers:
    """The pods of the node `node_name`; an idle pod is synced every `resync` seconds of `clock`.

    With `health_events`, each change of health in a status causes an event on the pod.
    """

    lifecycle = PodLifecycle
    """The parts that run a pod."""

    def __init__(
        self,
        api: ListWatch,
        devices: DeviceManager,
        runtime: ContainerRuntime,
        node_name: str,
        clock: Clock | None = None,
        resync: float = 60.0,
        health_events: bool = True,
    ) -> None:
        if resync <= 0:
            raise ValueError(f"resync must be a number of seconds greater than 0, got {resync}")
        self._api = api
        self._clock = clock or SystemClock()
        self._events = EventRecorder(api, self._clock, node_name)
        self._node = Node(api, devices, runtime, self._clock, resync, self._events, health_events)
        self._node_name = node_name
        self._status = NodeStatus(api, devices, node_name, self._clock)
        self._pods: dict[str, PodLifecycle] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._leave: list[Callable[[], None]] = []
        self._listed = asyncio.Event()

    async def start(self) -> None:
        """Returns when the existing pods are taken over, or the API has rejected the first list."""
        self._leave = [self._node.runtime.subscribe(self._changed), self._node.devices.subscribe(self._wake)]
        self._spawn(self._events.run())
        self._spawn(self._follow())
        self._spawn(self._status.run())
        await self._listed.wait()

    async def stop(self) -> None:
        """Ends all tasks; containers keep running, and the API is unchanged."""
        for leave in self._leave:
            leave()
        self._leave.clear()
        tasks = list(self._tasks)
        await cancel_and_wait(*tasks)
        self._pods.clear()
        self._listed.clear()

    # The API

    async def _follow(self) -> None:
        """Holds a copy of the node's pods, also after connection losses."""
        retry, complaint = Retry(limit=2.0), ""
        try:
            while True:
                try:
                    await self._list_and_watch(retry)
                    complaint = ""
                except ApiError as error:
                    if str(error) != complaint:
                        complaint = str(error)
                        log.warning(
                            "failed to watch the pods of node %s: %s; retrying with back-off", self._node_name, error
                        )
                self._listed.set()
                await self._clock.sleep(retry.next())
        finally:
            self._listed.set()

    async def _list_and_watch(self, retry: Retry) -> None:
        listed = await self._api.snapshot(PODS)
        self._reconcile(listed.objects)
        self._listed.set()
        retry.reset()
        async with aclosing(self._api.watch(PODS, since=listed.revision)) as events:
            async for event in events:
                self._saw(event)

    def _reconcile(self, objects: Iterable[Object]) -> None:
        """Takes over new pods and ends removed ones, also those that only the runtime or the device manager knows."""
        pods = {pod["metadata"]["uid"]: pod for pod in objects if self._is_ours(pod)}
        for uid in self._pods.keys() - pods.keys():
            self._gone(uid)
        for uid, pod in pods.items():
            if uid in self._pods:
                self._pods[uid].pod.relisted(pod)
                self._pods[uid].wake()
            else:
                self._begin(PodObject(self._api, pod))
        known = {sandbox.config.pod_uid for sandbox in self._node.runtime.sandboxes()}
        for uid in known.union(self._node.devices.pods()) - self._pods.keys():
            orphan = {"metadata": {"uid": uid, "resourceVersion": "0"}}
            self._begin(PodObject(self._api, orphan, is_gone=True))

    def _saw(self, event: WatchEvent) -> None:
        uid = event.object["metadata"]["uid"]
        if event.type == "DELETED":
            self._gone(uid)
        elif uid in self._pods:
            if self._pods[uid].pod.take(event.object):
                self._pods[uid].wake()
        elif self._is_ours(event.object):
            self._begin(PodObject(self._api, event.object))

    def _is_ours(self, pod: Object) -> bool:
        return bool(pod["spec"].get("nodeName") == self._node_name)

    def _gone(self, uid: str) -> None:
        if uid in self._pods:
            self._pods[uid].pod.is_gone = True
            self._pods[uid].wake()

    # The pods

    def _changed(self, container: Container) -> None:
        if container.state is ContainerState.EXITED:
            sandbox = self._node.runtime.sandbox(container.sandbox_id)
            self._wake({sandbox.config.pod_uid})

    def _wake(self, pod_uids: Iterable[str]) -> None:
        for uid in pod_uids:
            if uid in self._pods:
                self._pods[uid].wake()

    def _begin(self, pod: PodObject) -> None:
        self._pods[pod.uid] = self.lifecycle(self._node, pod)
        self._spawn(self._live(self._pods[pod.uid]))

    async def _live(self, life: PodLifecycle) -> None:
        try:
            await life.run()
        finally:
            self._pods.pop(life.pod.uid, None)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("pods of node %s: a task failed", self._node_name, exc_info=error)
