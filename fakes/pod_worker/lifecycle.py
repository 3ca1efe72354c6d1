"""One pod on its node: from its admission to its end, decided anew at each sync from what is there.

Little is remembered that the API, the runtime or the device manager do not remember too, so a new worker goes on where
another stopped. The order at the end: containers stop, devices are given back, then the final status. A kubelet writes
a status before the first of these as well (P-27); here the one that stands already serves for it.
"""

import asyncio
import logging
from dataclasses import dataclass

from drahealth.fakes.api import Api, Object
from drahealth.fakes.containers.runtime import (
    Container,
    ContainerConfig,
    ContainerRuntime,
    ContainerState,
    SandboxConfig,
    SandboxState,
)
from drahealth.fakes.pod_worker.backoff import CrashLoop, Retry
from drahealth.fakes.pod_worker.devices import DeviceManager, PodDevices
from drahealth.fakes.pod_worker.pod_object import PodObject
from drahealth.fakes.pod_worker.status import PodFacts, Waiting, failed_status, latest, pod_status
from drahealth.fakes.pods import is_terminal
from drahealth.proto.clock import Clock

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Node:
    """What all pods of a node share; `resync` in seconds."""

    api: Api
    devices: DeviceManager
    runtime: ContainerRuntime
    clock: Clock
    resync: float


class PodLifecycle:
    """Drives one pod. `run` returns once the pod is gone and nothing of it is left."""

    def __init__(self, node: Node, pod: PodObject) -> None:
        self.pod = pod
        self._node = node
        self._runtime = node.runtime
        self._devices = PodDevices(node.api, node.devices, node.clock, pod, self.wake)
        self._woken = asyncio.Event()
        self._crashes: dict[str, CrashLoop] = {}
        self._waiting: dict[str, Waiting] = {}
        self._retry = Retry()
        self._next_sync = 0.0
        self._is_deleted = False
        self._is_ended = False

    def wake(self) -> None:
        """Something has changed: sync soon. Calls that come before the sync are one."""
        self._woken.set()

    async def run(self) -> None:
        """Syncs when woken, when a back-off is over and every `resync` seconds, until the end."""
        try:
            while not self._is_ended:
                self._woken.clear()
                self._next_sync = self._node.clock.now() + self._node.resync
                await self._sync_safely()
                if not self._is_ended:
                    await self._rest()
        finally:
            await self._devices.close()

    # When

    async def _rest(self) -> None:
        alarm = asyncio.create_task(self._wake_when_due())
        try:
            await self._woken.wait()
        finally:
            alarm.cancel()
            await asyncio.gather(alarm, return_exceptions=True)

    async def _wake_when_due(self) -> None:
        await self._node.clock.sleep(self._next_sync - self._node.clock.now())
        self.wake()

    def _again_in(self, seconds: float) -> None:
        self._next_sync = min(self._next_sync, self._node.clock.now() + seconds)

    async def _sync_safely(self) -> None:
        """A fault in one sync must not end the pod's life; it is told and the pod is tried again."""
        try:
            await self._sync()
        except Exception:
            log.exception("pod %s: the sync failed; tried again with back-off", self.pod.uid)
            self._again_in(self._retry.next())

    # What

    async def _sync(self) -> None:
        if self.pod.is_gone:
            self._clean_up()
        elif is_terminal(self.pod.newest):
            await self._stay_at_rest()
        elif self.pod.newest["spec"].get("initContainers"):
            await self._refuse("UnsupportedPod", "this node runs no init containers; use a target with a real kubelet")
        elif self.pod.is_deleting or self._has_run_to_its_end():
            await self._terminate()
        else:
            self._run_containers()
            await self._write_status(is_over=False)
        if self.pod.is_gone and not self._is_ended:
            self.wake()

    def _clean_up(self) -> None:
        self._stop_containers()
        self._devices.release()
        if self._devices.is_released:
            for sandbox in self._runtime.sandboxes(pod_uid=self.pod.uid):
                self._runtime.remove_sandbox(sandbox.id)
            self._devices.forget()
            self._is_ended = True

    async def _stay_at_rest(self) -> None:
        """The pod has its final status; if someone else gave it that, it is stopped here."""
        if self._stop_containers() or self._devices.is_asked_for:
            self._devices.release()
        if not self._devices.is_releasing:
            await self._delete_if_asked()

    async def _refuse(self, reason: str, message: str) -> None:
        wall = self._node.clock.wall()
        written = await self.pod.write_status(lambda pod: failed_status(pod, reason, message, wall))
        self._judge(written)
        if written:
            await self._delete_if_asked()

    async def _terminate(self) -> None:
        self._stop_containers()
        self._devices.release()
        self._waiting.clear()
        is_over = self._devices.is_released
        if await self._write_status(is_over) and is_over:
            await self._delete_if_asked()

    async def _delete_if_asked(self) -> None:
        if self.pod.is_deleting and not self._is_deleted:
            self._is_deleted = await self.pod.delete()
            self._judge(self._is_deleted)

    async def _write_status(self, is_over: bool) -> bool:
        if self._containers() and not self._devices.is_resolved:
            return False  # containers of an earlier worker: their claims are about to be known, and wake this
        written = await self.pod.write_status(lambda pod: pod_status(pod, self._facts(is_over)))
        self._judge(written)
        return written

    def _facts(self, is_over: bool) -> PodFacts:
        return PodFacts(
            containers=self._containers(),
            waiting=self._waiting,
            health=self._devices.health(),
            has_sandbox=bool(self._runtime.sandboxes(pod_uid=self.pod.uid, state=SandboxState.READY)),
            is_over=is_over,
            wall=self._node.clock.wall(),
        )

    def _judge(self, done: bool) -> None:
        if done:
            self._retry.reset()
        else:
            self._again_in(self._retry.next())

    # Containers

    def _containers(self) -> list[Container]:
        return self._runtime.containers(pod_uid=self.pod.uid)

    def _has_run_to_its_end(self) -> bool:
        found = [latest(self._containers(), spec["name"]) for spec in self.pod.newest["spec"]["containers"]]
        return all(container is not None and self._stays_down(container) for container in found)

    def _stays_down(self, container: Container) -> bool:
        policy = self.pod.newest["spec"].get("restartPolicy", "Always")
        restarts = policy == "Always" or (policy == "OnFailure" and container.exit_code != 0)
        return container.state is ContainerState.EXITED and not restarts

    def _stop_containers(self) -> bool:
        """Stops all that runs and says whether anything did."""
        grace = self.pod.newest["metadata"].get("deletionGracePeriodSeconds", 0)
        running = self._runtime.containers(pod_uid=self.pod.uid, state=ContainerState.RUNNING)
        for container in running:
            self._runtime.stop_container(container.id, grace)
        for sandbox in self._runtime.sandboxes(pod_uid=self.pod.uid, state=SandboxState.READY):
            self._runtime.stop_sandbox(sandbox.id)
        return bool(running)

    def _run_containers(self) -> None:
        self._waiting.clear()
        self._devices.prepare()
        for spec in self.pod.newest["spec"]["containers"]:
            found = latest(self._containers(), spec["name"])
            if found is None:
                self._start_when_prepared(spec, attempt=0)
            elif found.state is ContainerState.EXITED and not self._stays_down(found):
                self._restart(spec, found)

    def _start_when_prepared(self, spec: Object, attempt: int) -> bool:
        if not self._devices.is_prepared:
            if self._devices.problem is not None:
                self._waiting[spec["name"]] = self._devices.problem
            return False
        self._start(spec, attempt)
        return True

    def _restart(self, spec: Object, exited: Container) -> None:
        crashes = self._crashes.setdefault(spec["name"], CrashLoop())
        at, now = exited.finished / 1e9, self._node.clock.wall()
        left = crashes.left(at, now)
        if left > 0:
            self._waiting[spec["name"]] = self._crash_loop(spec["name"], crashes.delay)
            self._again_in(left)
        elif self._start_when_prepared(spec, exited.config.attempt + 1):
            crashes.restart(at, now)

    def _crash_loop(self, container: str, delay: float) -> Waiting:
        metadata = self.pod.newest["metadata"]
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
        )
        container = self._runtime.create_container(self._sandbox_id(), config)
        self._forget_attempts_before(attempt - 1, spec["name"])
        self._runtime.start_container(container.id)

    def _forget_attempts_before(self, attempt: int, name: str) -> None:
        for container in self._containers():
            if container.config.name == name and container.config.attempt < attempt:
                self._runtime.remove_container(container.id)

    def _sandbox_id(self) -> str:
        """The pod's ready sandbox, a new one if there is none."""
        sandboxes = self._runtime.sandboxes(pod_uid=self.pod.uid)
        for sandbox in sandboxes:
            if sandbox.state is SandboxState.READY:
                return sandbox.id
        metadata = self.pod.newest["metadata"]
        attempt = max((sandbox.config.attempt + 1 for sandbox in sandboxes), default=0)
        config = SandboxConfig(metadata["name"], metadata["namespace"], metadata["uid"], attempt)
        return self._runtime.run_sandbox(config).id
