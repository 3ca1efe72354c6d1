"""The containers of one pod: starts them in order, restarts them after their backoff, and stops them in order."""

from collections.abc import Callable

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.cluster.containers.runtime import (
    Container,
    ContainerConfig,
    ContainerRuntime,
    ContainerState,
    SandboxConfig,
    SandboxState,
)
from drahealth.fakes.cluster.pod_worker.backoff import CrashLoop
from drahealth.fakes.cluster.pod_worker.devices import PodDevices
from drahealth.fakes.cluster.pod_worker.health_events import PodEvent
from drahealth.fakes.cluster.pod_worker.plan import in_order_of_stopping, latest, plan
from drahealth.fakes.cluster.pod_worker.pod_object import PodObject
from drahealth.fakes.cluster.pod_worker.status import Waiting
from drahealth.proto.clock import Clock

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
