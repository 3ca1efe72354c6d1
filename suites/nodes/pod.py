"""A pod of a public node: its statuses as an API client sees them, and waiting for what they show."""

from collections.abc import Callable
from fnmatch import fnmatchcase

from drahealth.fakes.cluster.api import PODS, Object
from drahealth.proto.event_text import format_event
from drahealth.proto.events import ContainerSeen, StatusSeen
from drahealth.proto.values import Health, ResourceHealth
from drahealth.suites.nodes.pod_statuses import PodStatuses, naming_a_stopped_node, timed_out


class Pod:
    """A pod on a node. Timeouts are in seconds; by default the longest that a correct kubelet needs."""

    def __init__(self, statuses: PodStatuses, obj: Object) -> None:
        self._all = statuses
        self.name: str = obj["metadata"]["name"]
        self.namespace: str = obj["metadata"]["namespace"]
        self.uid: str = obj["metadata"]["uid"]

    @property
    def statuses(self) -> list[StatusSeen]:
        """All different statuses until now; the newest status is the last one."""
        return [status for status in self._all.all() if status.uid == self.uid]

    @property
    def status(self) -> StatusSeen | None:
        """The newest status; None before the first status arrives."""
        return next(reversed(self.statuses), None)

    def devices(self) -> list[ResourceHealth]:
        """The devices in the newest status, each with its resource ID, health and message."""
        return list(dict.fromkeys(_devices(self.status))) if self.status else []

    @property
    def device(self) -> str:
        """The name of the only device of the Pod, such as `gpu-0`. Raises ValueError if it has several or none."""
        names = list(dict.fromkeys(_name(device.resource_id) for device in self.devices()))
        if len(names) != 1:
            raise ValueError(f"pod {self.name} must have one device, got {', '.join(names) or 'none'}")
        return names[0]

    async def wait_for_health(
        self, device: str, health: Health | str, *, message: str | None = None, timeout: float | None = None
    ) -> None:
        """Wait until every running container that has the device shows this health.

        `device` is its name, such as `gpu-0`, or its whole resource ID. `message` is a shell pattern, such as
        `XID 79*`; "" means no message, None means any. Raises ValueError for an unknown health, and TimeoutError with
        the status that was seen last.
        """
        wanted = Health(health)

        def shown(status: StatusSeen) -> bool:
            found = [d for d in _devices(status) if device in (d.resource_id, _name(d.resource_id))]
            return bool(found) and all(d.health is wanted and _fits(d.message, message) for d in found)

        about = f"{device} {wanted}" + ("" if message is None else f" {message!r}")
        await self.wait_until(shown, f"shows {about}", timeout=timeout)

    async def wait_running(self, *, timeout: float | None = None) -> None:
        """Wait until all containers run. Raises TimeoutError with the status that was seen last."""

        def running(status: StatusSeen) -> bool:
            return status.phase == "Running" and all(c.state == "running" for c in status.containers)

        await self.wait_until(running, "is running", timeout=self._all.start_timeout if timeout is None else timeout)

    async def wait_until(
        self, condition: Callable[[StatusSeen], bool], expected: str, *, timeout: float | None = None
    ) -> None:
        """Wait until `condition` is true for the newest status. Raises TimeoutError: pod `expected`, and what was seen.

        `expected` completes the sentence "pod NAME ...", such as "is Failed".
        """

        def true() -> bool:
            return self.status is not None and condition(self.status)

        limit = self._all.status_timeout if timeout is None else timeout
        if not await self._all.until(true, limit):
            seen = format_event(self.status).strip(" :") if self.status else "no status"
            raise timed_out(f"pod {self.name} {expected}", limit, seen)

    async def exit(self, code: int = 0, *, container: str | None = None) -> None:
        """End a running container with this exit code; without a name, all running containers."""
        for found in self.status.containers if self.status else ():
            if found.state == "running" and container in (None, found.name):
                await self._all.target.end_container(self.uid, found.name, code)

    async def delete(self, *, timeout: float | None = None) -> None:
        """Delete the pod and wait until it is gone. Its drivers must run. Raises TimeoutError, ApiError."""
        with naming_a_stopped_node(self._all.target):
            await self._all.target.api.delete(PODS, self.name, self.namespace)
        await self.wait_deleted(timeout=timeout)

    async def wait_deleted(self, *, timeout: float | None = None) -> None:
        """Wait until a client, such as your controller, has deleted the Pod. Its drivers must run.

        Raises TimeoutError.
        """
        limit = self._all.start_timeout if timeout is None else timeout
        if not await self._all.until(lambda: not self._all.exists(self.uid), limit):
            raise timed_out(f"pod {self.name} is gone", limit, "the pod; the driver of its devices must run")

    async def object(self) -> Object:
        """The Pod object as the API server has it now. Raises ApiError."""
        with naming_a_stopped_node(self._all.target):
            return await self._all.target.api.get(PODS, self.name, self.namespace)


def _devices(status: StatusSeen) -> list[ResourceHealth]:
    """Every entry of a device, but for containers that have terminated, whose last status stays."""

    def lives(container: ContainerSeen) -> bool:
        return container.state != "terminated"

    containers = filter(lives, (*status.init_containers, *status.containers))
    entries = [*(entry for container in containers for entry in container.resources or ()), *(status.resources or ())]
    return [device for entry in entries for device in entry.resources]


def _name(resource_id: str) -> str:
    """The name in `driver/pool/device`, in the CDI ID `vendor/class=device`, or in a device plugin's plain ID."""
    return resource_id.rpartition("/")[2].rpartition("=")[2]


def _fits(message: str, pattern: str | None) -> bool:
    return pattern is None or fnmatchcase(message, pattern)
