"""One pod on its node with its containers, from its admission to its end."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from drahealth.fakes.cluster.api import Api, Object
from drahealth.fakes.cluster.pod_worker.devices import DeviceManager, PodDevices
from drahealth.fakes.cluster.pod_worker.events import EventRecorder
from drahealth.fakes.cluster.pod_worker.health_events import PodEvent, health_events
from drahealth.fakes.cluster.pod_worker.pod_object import PodObject
from drahealth.fakes.cluster.pod_worker.status import (
    PodFacts,
    Waiting,
    failed_status,
    in_order_of_stopping,
    latest,
    plan,
    pod_status,
)
from drahealth.fakes.cluster.pods import is_terminal
from drahealth.fakes.cluster.runtime import (
    Container,
    ContainerConfig,
    ContainerRuntime,
    ContainerState,
    SandboxConfig,
    SandboxState,
)
from drahealth.fakes.waiting import CrashLoop, Retry, cancel_and_wait
from drahealth.proto.clock import Clock
from drahealth.proto.values import AllocatedResources

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

log = logging.getLogger(__name__)


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
