"""The parts of a pod whose status has health entries: its containers of any kind, and the pod itself."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Protocol

from drahealth.fakes.cluster.api import Object
from drahealth.proto.events import ContainerSeen, StatusSeen
from drahealth.proto.values import Health, ResourceStatus
from drahealth.suites.judging.status_content import Sought
from drahealth.suites.story.context import StoryNode
from drahealth.suites.story.device_plugin import PluginGpu
from drahealth.suites.story.hardware import Driver, Gpu
from drahealth.suites.targets.target import Window

_FIELD = "allocatedResourcesStatus"
_CONTAINERS = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


class MessageNode(StoryNode, Protocol):
    """A node that decides which messages a pod status must show."""

    def requires_messages_of(self, driver: Driver) -> bool:
        """Whether the pod status must show the messages of this driver."""


class PodView(Protocol):
    """The part of `Pod` that a PodPart uses."""

    @property
    def node(self) -> MessageNode: ...

    @property
    def name(self) -> str: ...

    @property
    def uid(self) -> str: ...

    @property
    def status(self) -> StatusSeen | None:
        """The newest status that the client received."""


class PodPart:
    """A container of any kind, or the pod itself if the name is empty."""

    def __init__(self, pod: PodView, name: str) -> None:
        self._pod = pod
        self._node = pod.node
        self._name = name

    async def shows(
        self, gpu: Gpu | PluginGpu, health: Health, message: str | None = None, within: Window = "push"
    ) -> None:
        """Wait until this part shows the device with this health. `message` as in `Pod.shows`."""
        words, sought = self._words("shows", gpu, health, message), self._sought(gpu, health, message)
        await self._until(lambda: self._shown(gpu, health, message), within, words, sought)

    def still_shows(self, gpu: Gpu | PluginGpu, health: Health, message: str | None = None) -> None:
        """Check that the newest status shows this health."""
        words = self._words("still shows", gpu, health, message)
        sought = self._sought(gpu, health, message)
        self._node.check(self._shown(gpu, health, message), words, self._pod, sought)

    async def shows_entries(self, expected: Mapping[str, Sequence[Gpu]], within: Window = "push") -> None:
        """Wait until there are exactly these entries, each with exactly these devices."""
        wanted = {name: {gpu.resource_id(self._node.profile) for gpu in gpus} for name, gpus in expected.items()}
        sought = Sought(pod=self._pod.uid, places=(self._name,), entries=wanted)
        words = f"{self} has the entries {wanted}"
        await self._until(lambda: entry_ids(self._entries()) == wanted, within, words, sought)

    async def shows_nothing(self, within: Window = "push") -> None:
        """Wait until there are no entries."""
        absent = Sought(pod=self._pod.uid, places=(self._name,), is_absent=True)
        await self._until(lambda: not self._entries(), within, f"{self} has no entries", absent)

    async def is_in_state(self, state: str, restarts: int = 0) -> None:
        """Wait for this state of the container (running, terminated or a waiting reason) and restart count."""
        words = f"{self} is {state} after {restarts} restarts"
        await self._until(lambda: (state, restarts) in [(c.state, c.restarts) for c in self._seen()], "start", words)

    async def ends(self, code: int = 0) -> None:
        """Terminate the container with this exit code."""
        self._node.log(f"{self} terminates with exit code {code}")
        await self._node.target.end_container(self._pod.uid, self._name, code)

    async def fails_until_back_off(self) -> None:
        """Let the container fail whenever it runs, until the kubelet waits before it restarts it (CrashLoopBackOff).

        A slow kubelet can end its first wait of 10 s before a status shows it. The next wait is longer.
        """
        for restarts in count():

            def is_up_or_waits(restarts: int = restarts) -> bool:
                return any(
                    c.state == "CrashLoopBackOff" or (c.state == "running" and c.restarts >= restarts)
                    for c in self._seen()
                )

            await self._until(is_up_or_waits, "start", f"{self} runs again or is in CrashLoopBackOff")
            if any(c.state == "CrashLoopBackOff" for c in self._seen()):
                return
            await self.ends(1)

    def has_cdi_devices(self, *gpus: Gpu) -> None:
        """Check that the container runtime received the CDI devices of these devices, and no others."""
        names, wanted = self._node.target.cdi_devices(self._pod.uid, self._name), {gpu.cdi_id for gpu in gpus}
        self._node.check(set(names) == wanted, f"{self} has the CDI devices {sorted(wanted)}", sorted(names))

    def __str__(self) -> str:
        return f"container {self._name} of pod {self._pod.name}" if self._name else f"pod {self._pod.name} itself"

    def _words(self, shows: str, gpu: Gpu | PluginGpu, health: Health, message: str | None) -> str:
        return f"{self} {shows} {gpu} {health}" + (f" {message!r}" if message else "")

    def _sought(self, gpu: Gpu | PluginGpu, health: Health, message: str | None) -> Sought:
        return sought_in(self._pod, gpu, health, message, (self._name,))

    def _seen(self) -> Sequence[ContainerSeen]:
        status = self._pod.status
        return [c for c in (*status.init_containers, *status.containers) if c.name == self._name] if status else []

    def _entries(self) -> Sequence[ResourceStatus]:
        return dict(self._pod.status.entries()).get(self._name, ()) if self._pod.status else ()

    def _shown(self, gpu: Gpu | PluginGpu, health: Health, message: str | None) -> bool:
        message = required_message(self._node, gpu, message)
        return shows_health(self._entries(), gpu.resource_id(self._node.profile), health, message, gpu.entry)

    async def _until(
        self, true: Callable[[], bool], within: Window, expected: str, sought: Sought | None = None
    ) -> None:
        await self._node.until(true, within, expected, self._pod, sought or Sought(pod=self._pod.uid))


def required_message(node: MessageNode, gpu: Gpu | PluginGpu, message: str | None) -> str | None:
    """The message that a pod status must show; none of a driver whose messages the status does not have."""
    if message and isinstance(gpu, Gpu) and not node.requires_messages_of(gpu.driver):
        return ""
    return message


def sought_in(
    pod: PodView,
    gpu: Gpu | PluginGpu,
    health: Health | None,
    message: str | None,
    places: Sequence[str] | None,
    entry: str | None = None,
) -> Sought:
    """What a check of a pod looks for, for the diagnosis of a failure. `places` None: any container."""
    return replace(
        gpu.sought(pod.node.profile),
        pod=pod.uid,
        health=health,
        message=required_message(pod.node, gpu, message),
        entry=entry or gpu.entry,
        places=None if places is None else tuple(places),
    )


def shows_health(
    entries: Sequence[ResourceStatus], name: str, health: Health, message: str | None, entry: str | None = None
) -> bool:
    """Whether all entries with this device show this health and message. `entry` restricts it to one entry name."""
    found = [r for e in entries if entry in (None, e.name) for r in e.resources if r.resource_id == name]
    return bool(found) and all(r.health is health and message in (None, r.message) for r in found)


def entry_ids(entries: Sequence[ResourceStatus]) -> dict[str, set[str]]:
    """The device IDs of each entry."""
    return {entry.name: {r.resource_id for r in entry.resources} for entry in entries}


def health_size(pod: Object) -> int:
    """The bytes of JSON that each allocatedResourcesStatus in the status of a Pod object has together."""
    parts = [pod["status"]]
    for kind in _CONTAINERS:
        parts += pod["status"].get(kind) or ()
    return sum(len(json.dumps(part[_FIELD]).encode()) for part in parts if _FIELD in part)


def field_names(value: object, path: str = "") -> frozenset[str]:
    """The paths of all fields in a part of an object, without the indices of lists."""
    if isinstance(value, list):
        return frozenset().union(*(field_names(one, path) for one in value))
    if not isinstance(value, dict):
        return frozenset({path})
    return frozenset().union(*(field_names(one, f"{path}.{name}") for name, one in value.items()))


def without_resources(pod: Object) -> Object:
    """The status of a Pod object without `resources`, which the kubelet reads from the cgroup of the Pod (B-35)."""
    return {key: value for key, value in pod["status"].items() if key != "resources"}


def without_health(pod: Object) -> Object:
    """The status of a Pod object without each allocatedResourcesStatus."""
    status = {key: value for key, value in pod["status"].items() if key != _FIELD}
    for kind in _CONTAINERS:
        if kind in status:
            status[kind] = [{key: value for key, value in c.items() if key != _FIELD} for c in status[kind]]
    return status
