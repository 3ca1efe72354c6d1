"""The small part of a kubelet around its device manager: it runs the pods of a node, and writes the node's status."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from drahealth.fakes.cluster.api import NODES, PODS, Api, ApiError, ListWatch, Object, WatchEvent
from drahealth.fakes.cluster.pods import is_terminal
from drahealth.fakes.cluster.runtime import (
    Container,
    ContainerConfig,
    ContainerRuntime,
    ContainerState,
    SandboxConfig,
    SandboxState,
)
from drahealth.fakes.waiting import CrashLoop, Retry, cancel_and_wait, first_of
from drahealth.manager.manager import DeviceManager
from drahealth.manager.pod_worker.devices import PodDevices
from drahealth.manager.pod_worker.events import EventRecorder
from drahealth.manager.pod_worker.pod_object import PodObject
from drahealth.manager.pod_worker.pod_status import (
    PodEvent,
    PodFacts,
    Waiting,
    failed_status,
    health_events,
    in_order_of_stopping,
    latest,
    plan,
    pod_status,
)
from drahealth.proto.clock import Clock, SystemClock
from drahealth.proto.values import AllocatedResources

log = logging.getLogger(__name__)

# The containers of one pod: starts them in order, restarts them after their backoff, and stops them in order.

_GRACE = 30
"""Default grace period of a pod's containers, in seconds (Pod API)."""


class PodContainers:
    """`waiting` has, by container, the reason why a due container does not run. `record` receives events to record."""

    def __init__(
        self,
        runtime: ContainerRuntime,
        clock: Clock,
        pod: PodObject,
        devices: PodDevices,
        record: Callable[[PodEvent], None],
    ) -> None:
        self.waiting: dict[str, Waiting] = {}
        self._runtime = runtime
        self._clock = clock
        self._pod = pod
        self._devices = devices
        self._record = record
        self._crashes: dict[str, CrashLoop] = {}

    def all(self) -> list[Container]:
        """All containers of the pod in the runtime."""
        return self._runtime.containers(pod_uid=self._pod.uid)

    @property
    def has_sandbox(self) -> bool:
        """Whether the pod has a ready sandbox."""
        return bool(self._runtime.sandboxes(pod_uid=self._pod.uid, state=SandboxState.READY))

    @property
    def have_run_to_their_end(self) -> bool:
        """Whether no container will be started again."""
        return plan(self._pod.newest["spec"], self.all()).is_over

    def run(self) -> float | None:
        """Starts the containers that are due, once each. Returns the seconds until the first backoff ends, if any."""
        self.waiting.clear()
        tried: dict[str, float | None] = {}
        while due := [one for one in plan(self._pod.newest["spec"], self.all()).due if one["name"] not in tried]:
            tried |= {spec["name"]: self._run(spec) for spec in due}
        return min((left for left in tried.values() if left is not None), default=None)

    def stop(self) -> bool:
        """Stops all running containers; returns whether there were any."""
        running = self._runtime.containers(pod_uid=self._pod.uid, state=ContainerState.RUNNING)
        for container in in_order_of_stopping(self._pod.newest.get("spec", {}), running):
            self._runtime.stop_container(container.id, self._grace())
        for sandbox in self._runtime.sandboxes(pod_uid=self._pod.uid, state=SandboxState.READY):
            self._runtime.stop_sandbox(sandbox.id)
        return bool(running)

    def remove(self) -> None:
        """Removes all containers."""
        for sandbox in self._runtime.sandboxes(pod_uid=self._pod.uid):
            self._runtime.remove_sandbox(sandbox.id)

    def _grace(self) -> float:
        """The grace period in seconds; none for a pod that is known only by its containers."""
        metadata, spec = self._pod.newest["metadata"], self._pod.newest.get("spec")
        by_itself = spec.get("terminationGracePeriodSeconds", _GRACE) if spec else 0
        return float(metadata.get("deletionGracePeriodSeconds", by_itself))

    def _run(self, spec: Object) -> float | None:
        """Starts the container, or returns the seconds until the next attempt."""
        exited = latest(self.all(), spec["name"])
        if exited is None:
            self._start_when_prepared(spec, attempt=0)
            return None
        crashes = self._crashes.setdefault(spec["name"], CrashLoop())
        at, now = exited.finished / 1e9, self._clock.wall()
        left = crashes.left(at, now)
        if left > 0:
            self.waiting[spec["name"]] = self._crash_loop(spec["name"], crashes.delay)
            return left
        if self._start_when_prepared(spec, exited.config.attempt + 1):
            crashes.restart(at, now)
        return None

    def _start_when_prepared(self, spec: Object, attempt: int) -> bool:
        if not self._devices.is_prepared or not self._devices.is_pre_started(spec["name"], attempt):
            if self._devices.problem is not None:
                self.waiting[spec["name"]] = self._devices.problem
            return False
        self._start(spec, attempt)
        return True

    def _crash_loop(self, container: str, delay: float) -> Waiting:
        metadata = self._pod.newest["metadata"]
        pod = f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"
        return Waiting("CrashLoopBackOff", f"back-off {delay:.0f}s restarting failed container={container} pod={pod}")

    def _start(self, spec: Object, attempt: int) -> None:
        config = ContainerConfig(
            name=spec["name"],
            image=spec.get("image", ""),
            attempt=attempt,
            command=tuple(spec.get("command") or ()),
            args=tuple(spec.get("args") or ()),
            cdi_devices=self._devices.cdi_devices(spec["name"]),
            annotations=self._devices.grant(spec["name"]).annotations,
        )
        container = self._runtime.create_container(self._sandbox_id(), config)
        self._forget_attempts_before(attempt - 1, spec["name"])
        self._runtime.start_container(container.id)
        self._record(PodEvent("Normal", "Started", f"Started container {spec['name']}"))

    def _forget_attempts_before(self, attempt: int, name: str) -> None:
        for container in self.all():
            if container.config.name == name and container.config.attempt < attempt:
                self._runtime.remove_container(container.id)

    def _sandbox_id(self) -> str:
        """The pod's ready sandbox; creates one if there is none."""
        sandboxes = self._runtime.sandboxes(pod_uid=self._pod.uid)
        for sandbox in sandboxes:
            if sandbox.state is SandboxState.READY:
                return sandbox.id
        metadata = self._pod.newest["metadata"]
        attempt = max((sandbox.config.attempt + 1 for sandbox in sandboxes), default=0)
        annotations = metadata.get("annotations", {})
        config = SandboxConfig(
            metadata["name"], metadata["namespace"], metadata["uid"], attempt, annotations=annotations
        )
        return self._runtime.run_sandbox(config).id


# One pod on its node, from its admission to its end. Each sync decides from the current state.
#
# Almost all state is in the API, the runtime and the device manager, so a new worker continues where another stopped.
# The order at the end: containers stop, devices are released, the final status is written. A kubelet also writes a
# status before the first of these (P-27); here the existing status is equivalent.


@dataclass(frozen=True, slots=True)
class Node:
    """The values that all pods of a node share; `resync` in seconds. `health_events`: record events for changes of
    health.
    """

    api: Api
    devices: DeviceManager
    runtime: ContainerRuntime
    clock: Clock
    resync: float
    events: EventRecorder
    health_events: bool


class PodLifecycle:
    """Drives one pod. `run` returns when the pod is deleted and nothing of it is left."""

    devices_type = PodDevices

    def __init__(self, node: Node, pod: PodObject) -> None:
        self.pod = pod
        self._node = node
        self._devices = self.devices_type(node.api, node.devices, node.clock, pod, self.wake)
        self._containers = PodContainers(node.runtime, node.clock, pod, self._devices, self._record)
        self._woken = asyncio.Event()
        self._retry = Retry()
        self._next_sync = 0.0
        self._is_deleted = False
        self._is_ended = False
        self._last_health: AllocatedResources | None = None
        self._recorded: Waiting | None = None
        """The problem of the last Event about the devices."""

    def wake(self) -> None:
        """Requests a sync. Several requests before a sync are combined."""
        self._woken.set()

    async def run(self) -> None:
        """Syncs when woken, when a backoff ends, and every `resync` seconds, until the end."""
        try:
            while not self._is_ended:
                self._woken.clear()
                self._next_sync = self._node.clock.now() + self._node.resync
                await self._sync_safely()
                if not self._is_ended:
                    await self._rest()
        finally:
            await self._devices.close()

    # Schedule

    async def _rest(self) -> None:
        alarm = asyncio.create_task(self._wake_when_due())
        try:
            await self._woken.wait()
        finally:
            await cancel_and_wait(alarm)

    async def _wake_when_due(self) -> None:
        await self._node.clock.sleep(self._next_sync - self._node.clock.now())
        self.wake()

    def _again_in(self, seconds: float) -> None:
        self._next_sync = min(self._next_sync, self._node.clock.now() + seconds)

    async def _sync_safely(self) -> None:
        """An error in one sync does not end the pod; it is logged and the sync is retried."""
        try:
            await self._sync()
        except Exception:
            log.exception("pod %s: the sync failed; retrying with back-off", self.pod.uid)
            self._again_in(self._retry.next())

    # Sync

    async def _sync(self) -> None:
        was_gone = self.pod.is_gone
        if was_gone:
            self._clean_up()
        elif is_terminal(self.pod.newest):
            await self._stay_at_rest()
        elif self.pod.is_deleting or self._containers.have_run_to_their_end:
            await self._terminate()
        else:
            await self._run()
        if self.pod.is_gone and not was_gone:
            self.wake()

    def _clean_up(self) -> None:
        self._containers.stop()
        self._devices.release()
        if self._devices.is_released:
            self._containers.remove()
            self._devices.forget()
            self._is_ended = True

    async def _stay_at_rest(self) -> None:
        """The pod has its final status; if another client wrote it, its containers are stopped here.

        If the pod ended before this worker began, the devices that it still holds are released here.
        """
        if self._containers.stop() or self._devices.is_preparing or self._devices.are_held:
            self._devices.release()
        if not self._devices.is_releasing:
            await self._delete_if_asked()

    async def _run(self) -> None:
        self._devices.prepare()
        if self._devices.refusal:
            await self._refuse("UnexpectedAdmissionError", self._devices.refusal)
            return
        if (seconds := self._containers.run()) is not None:
            self._again_in(seconds)
        if (problem := self._devices.problem) != self._recorded:
            self._recorded = problem
            if problem and problem.reason != "PreStartContainerError":
                message = f"Failed to prepare dynamic resources: {problem.message}"
                self._record(PodEvent("Warning", "FailedPrepareDynamicResources", message))
        await self._write_status(is_over=False)

    async def _refuse(self, reason: str, message: str) -> None:
        wall = self._node.clock.wall()
        written = await self.pod.write_status(lambda pod: failed_status(pod, reason, message, wall))
        self._judge(written)
        if written:
            await self._stay_at_rest()

    async def _terminate(self) -> None:
        self._containers.stop()
        self._devices.release()
        self._containers.waiting.clear()
        is_over = self._devices.is_released
        if await self._write_status(is_over) and is_over:
            await self._delete_if_asked()

    async def _delete_if_asked(self) -> None:
        if self.pod.is_deleting and not self._is_deleted:
            self._is_deleted = await self.pod.delete()
            self._judge(self._is_deleted)

    async def _write_status(self, is_over: bool) -> bool:
        if self._containers.all() and not self._devices.is_resolved:
            return False  # containers of an earlier worker: the sync runs again when their claims are read
        before = self.pod.newest
        written = await self.pod.write_status(lambda pod: pod_status(pod, self._facts(is_over)))
        self._record_health_events(before.get("status", {}), self.pod.newest.get("status", {}))
        self._judge(written)
        return written

    def _record_health_events(self, before: Object, after: Object) -> None:
        for event in health_events(before, after) if self._node.health_events else ():
            self._record(event)

    def _record(self, event: PodEvent) -> None:
        self._node.events.record(self.pod.newest, event)

    def _facts(self, is_over: bool) -> PodFacts:
        """The final status is built once; after a rejection it is retried with the same health (B-32)."""
        health = self._devices.health() if self._last_health is None else self._last_health
        if is_over:
            self._last_health = health
        return PodFacts(
            containers=self._containers.all(),
            waiting=self._containers.waiting,
            health=health,
            has_sandbox=self._containers.has_sandbox,
            is_over=is_over,
            wall=self._node.clock.wall(),
        )

    def _judge(self, done: bool) -> None:
        if done:
            self._retry.reset()
        else:
            self._again_in(self._retry.next())


# The node's status: its extended resources, as its device manager counts them.

PERIOD = 10.0
"""Seconds between checks without a change, as in kubelets."""


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

    def _node_of(self, pod: Object) -> Node:
        """The node of one of our pods. An orphan has no `spec`."""
        return self._node

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
        self._pods[pod.uid] = self.lifecycle(self._node_of(pod.newest), pod)
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
