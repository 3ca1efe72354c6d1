"""The pods and ReplicaSets of a scenario. A client watches their status."""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Protocol

from drahealth.fakes.cluster.allocation import is_allocated
from drahealth.fakes.cluster.api import CLAIMS, NODES, PODS, REPLICA_SETS, Object
from drahealth.fakes.cluster.mirror import until_object
from drahealth.fakes.cluster.runtime import UnknownIdError
from drahealth.proto.events import ContainerSeen, EventSeen, HeldDevice, StatusSeen, Unprepared
from drahealth.proto.events.text import format_event
from drahealth.proto.values import Health, ResourceHealth, ResourceStatus
from drahealth.suites.judging.status_content import Sought
from drahealth.suites.story.claims import Claim, Claims, PodUses
from drahealth.suites.story.hardware import DevicePlugin, Driver, Gpu, PluginGpu, ResourceRequest, StoryNode
from drahealth.suites.story.history import devices_held
from drahealth.suites.targets.target import Window

# The parts of a pod whose status has health entries: its containers of any kind, and the pod itself.

_FIELD = "allocatedResourcesStatus"
_CONTAINERS = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


class PodPart:
    """A container of any kind, or the pod itself if the name is empty."""

    def __init__(self, pod: "Pod", name: str) -> None:
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

    async def shows_entries(self, expected: Mapping[str, Sequence[Gpu | PluginGpu]], within: Window = "push") -> None:
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


def required_message(node: StoryNode, gpu: Gpu | PluginGpu, message: str | None) -> str | None:
    """The message that a pod status must show; none of a driver whose messages the status does not have."""
    if message and isinstance(gpu, Gpu) and not node.requires_messages_of(gpu.driver):
        return ""
    return message


def sought_in(
    pod: "Pod",
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


# The pods of a scenario. A client watches their status.


class PodNode(StoryNode, Protocol):
    """A node for pods with claims."""

    @property
    def namespace(self) -> str: ...

    @property
    def claims(self) -> Claims: ...

    async def allocated(self, claim: Claim, request: str | None = None) -> list[Gpu]:
        """The devices that the scheduler allocated to the claim, or to one request of it."""


EXIT_AT_ONCE = ("sh", "-c", "exit 1")
"""The command of a container that fails at each start."""


class Pod:
    """A pod of the scenario. `shows` and `is_...` wait; `still_shows` checks the current status."""

    def __init__(self, node: PodNode, name: str, uid: str, users: PodUses) -> None:
        self.node = node
        self.name = name
        self.uid = uid
        self.uses = users
        self.own = PodPart(self, "")

    def __getitem__(self, container: str) -> PodPart:
        """The container of any kind with this name. `own` is the pod itself."""
        return PodPart(self, container)

    @property
    def sought(self) -> Sought:
        """The pod, for the diagnosis of a failed check."""
        return Sought(pod=self.uid)

    @property
    def status(self) -> StatusSeen | None:
        """The newest status that the client received."""
        return self.node.latest(self.uid)

    def statuses(self) -> list[StatusSeen]:
        """All statuses that the client received, each change once."""
        return [seen for seen in self.node.history.of(StatusSeen) if seen.uid == self.uid]

    async def version(self) -> str:
        """The resourceVersion of the Pod object. Each write that changes it has a new one."""
        return str((await self.object())["metadata"]["resourceVersion"])

    async def is_running(self, within: Window = "start") -> None:
        """Wait until the pod is Running, and every container runs."""
        expected = f"pod {self.name} is Running, and every container runs"
        await self.node.until(self._runs, within, expected, self, self.sought)

    async def is_scheduled(self) -> None:
        """Wait until the pod has a node. A kubelet need not run."""
        is_so = await self._becomes(lambda pod: bool(pod["spec"].get("nodeName")))
        self.node.check(is_so, f"pod {self.name} has a node", "no node")

    async def asks_for_all(self, resource: str) -> None:
        """Resize its containers to the node's whole amount of cpu or memory. Wait until the kubelet has seen it.

        While another pod has some of the resource, the kubelet must defer the resize.
        """
        node, api = self.node, self.node.target.api
        whole = (await api.get(NODES, node.target.node_name))["status"]["allocatable"][resource]
        node.log(f"pod {self.name} is resized to {whole} {resource}, which is all of the node")
        await api.resize_pod(self.name, node.namespace, {resource: whole})
        wanted = (await self.object())["metadata"]["generation"]
        is_so = await self._becomes(lambda pod: int(pod["status"].get("observedGeneration", 0)) >= wanted)
        node.check(is_so, f"the status of pod {self.name} has the generation {wanted}", self)

    async def resizes_to(self, limits: Mapping[str, str]) -> None:
        """Resize its containers in place. Wait until the kubelet has granted it: the status shows the new limits."""
        node = self.node
        node.log(f"pod {self.name} is resized to {limits}")
        await node.target.api.resize_pod(self.name, node.namespace, limits)

        def granted(pod: Object) -> bool:
            shown = [one.get("resources", {}).get("limits", {}) for one in pod["status"].get("containerStatuses", ())]
            return bool(shown) and all(limits.items() <= one.items() for one in shown)

        node.check(await self._becomes(granted), f"the status of pod {self.name} has the limits {limits}", self)

    async def _becomes(self, true: Callable[[Object], bool]) -> bool:
        """Wait until this is true of the Pod object, as long as a pod may take to start."""

        def is_so(pod: Object) -> bool:
            return pod["metadata"]["uid"] == self.uid and true(pod)

        target, namespace = self.node.target, self.node.namespace
        return await until_object(target.api, PODS, is_so, target.windows["start"], namespace)

    async def is_in_back_off(self) -> None:
        """Wait until every container is in CrashLoopBackOff."""
        await self._until("a container is in CrashLoopBackOff", lambda c: c.state == "CrashLoopBackOff", "start")

    async def is_in_phase(self, phase: str) -> None:
        """Wait until the pod is in this phase (Succeeded, Failed, ...)."""
        expected = f"pod {self.name} is {phase}"
        await self.node.until(
            lambda: self.status is not None and self.status.phase == phase, "start", expected, self, self.sought
        )

    async def is_cleaned_up(self, phase: str) -> None:
        """Wait until the pod is in this terminal phase, and its claims are unprepared. No other pod may use them."""
        claims = {(await self.node.claims.object(claim))["metadata"]["uid"] for claim in self.uses.claims}
        await self.is_in_phase(phase)
        await self.node.until(
            lambda: claims <= {event.claim_uid for event in self.node.history.of(Unprepared)},
            "start",
            f"the kubelet unprepares the claims of pod {self.name}",
            "no NodeUnprepareResources call",
        )

    async def runs_again(self) -> None:
        """Wait until every container runs after its first restart."""
        await self._until("a container runs again", lambda c: (c.state, c.restarts) == ("running", 1), "start")

    def has_never_restarted(self) -> bool:
        """Whether the pod is Running, every container runs, and none was restarted, init containers included."""
        initial = self.status.init_containers if self.status else ()
        return self._runs() and all(container.restarts == 0 for container in (*initial, *self._seen()))

    async def shows(
        self,
        gpu: Gpu | PluginGpu,
        health: Health,
        message: str | None = None,
        within: Window = "push",
        entry: str | None = None,
    ) -> None:
        """Wait until each container that uses the device shows this health, in this entry if given.

        A status from before the call counts too, so give each change its own message.
        `message` None accepts any message; "" requires an empty one.
        """
        expected = f"pod {self.name} shows {gpu} {health}" + (f" {message!r}" if message else "")
        sought = self._sought(gpu, health, message, entry)
        await self.node.until(lambda: self._shown(gpu, health, message, entry), within, expected, self, sought)

    def still_shows(self, gpu: Gpu | PluginGpu, health: Health, message: str | None = None) -> None:
        """Check that the newest status shows this health."""
        expected = f"pod {self.name} still shows {gpu} {health}" + (f" {message!r}" if message else "")
        self.node.check(self._shown(gpu, health, message, None), expected, self, self._sought(gpu, health, message))

    async def shows_entries(self, expected: Mapping[str, Sequence[Gpu | PluginGpu]], within: Window = "push") -> None:
        """Wait until every container has exactly these entries, each with exactly these devices."""
        wanted = {name: {gpu.resource_id(self.node.profile) for gpu in gpus} for name, gpus in expected.items()}
        words = f"pod {self.name} has the entries {wanted}"
        await self._until(words, lambda c: _ids(c) == wanted, within, replace(self.sought, entries=wanted))

    async def shows_only_in(self, *containers: str) -> None:
        """Wait until only these containers have entries."""
        words = f"pod {self.name} has entries in {', '.join(containers)} only"
        await self._until(words, lambda c: bool(c.resources) == (c.name in containers), "push")

    async def shows_no_health(self, within: Window = "restart") -> None:
        """Wait until no container has the field."""
        words, absent = f"pod {self.name} has no allocatedResourcesStatus", replace(self.sought, is_absent=True)
        await self._until(words, lambda c: c.resources is None, within, absent)
        for name in ("", *self.uses.init, *self.uses.sidecars):
            await self[name].shows_nothing(within)

    def ids(self) -> set[str]:
        """The device IDs in the newest status, for any profile."""
        return {name for c in self._seen() for ids in _ids(c).values() for name in ids}

    async def has_devices(self, count: int, within: Window = "push") -> None:
        """Wait until every container shows this number of devices, with any IDs."""
        words = f"pod {self.name} shows {count} devices"
        await self._until(words, lambda c: sum(map(len, _ids(c).values())) == count, within)

    def resources(self, gpu: Gpu | PluginGpu) -> list[ResourceHealth]:
        """The readings of the device in the newest status, from all containers and entries."""
        name = gpu.resource_id(self.node.profile)
        return [r for c in self._seen() for e in c.resources or () for r in e.resources if r.resource_id == name]

    def has_shown(self, gpu: Gpu | PluginGpu, health: Health) -> bool:
        """Whether a container of any status so far showed this health of the device."""
        name = gpu.resource_id(self.node.profile)
        seen = (c for status in self.statuses() for c in status.containers)
        shown = (r for c in seen for entry in c.resources or () for r in entry.resources)
        return any(r.resource_id == name and r.health == health for r in shown)

    def events(self, gpu: Gpu | None = None) -> list[EventSeen]:
        """The events on the pod so far, once for each seen count. `gpu` selects events that name the device."""
        mine = [event for event in self.node.history.of(EventSeen) if event.uid == self.uid]
        return [event for event in mine if gpu is None or gpu.name in event.message]

    def has_event(self, gpu: Gpu | PluginGpu, health: Health, since: Sequence[EventSeen]) -> None:
        """Check that an event names the device and this health, in its reason or message. `since`: earlier `events()`.

        Earlier events do not count, unless they have occurred again.
        """
        texts = [f"{event.reason} {event.message}" for event in self.events()[len(since) :]]
        found = any(gpu.name in text and health in _healths(text) for text in texts)
        self.node.check(found, f"an event on pod {self.name} names {gpu} and {health}", "; ".join(texts) or "no events")

    async def gets_warning(self, text: str) -> None:
        """Wait until a Warning event on the pod has this text."""

        def is_true() -> bool:
            return any(event.type == "Warning" and text in event.message for event in self.events())

        await self.node.until(is_true, "start", f"a Warning event on pod {self.name} has {text!r}", self.events())

    def orders(self) -> set[tuple[str, ...]]:
        """All orders of a container's entries that occurred in its statuses."""
        containers = (container for status in self.statuses() for container in status.containers)
        return {tuple(entry.name for entry in one.resources) for one in containers if one.resources}

    def device_orders(self, entry: str) -> set[tuple[str, ...]]:
        """All orders of the devices in this entry that occurred in its statuses."""
        found = (e for status in self.statuses() for _, entries in status.entries() for e in entries if e.name == entry)
        return {tuple(resource.resource_id for resource in one.resources) for one in found}

    async def ends(self, code: int = 0) -> None:
        """Terminate all its containers with this exit code. The kubelet terminates sidecars."""
        self.node.log(f"the containers of pod {self.name} terminate with exit code {code}")
        for container in self.uses.containers:
            await self.node.target.end_container(self.uid, container, code)

    async def fails_repeatedly(self) -> None:
        """Let its containers fail whenever they run, until the task is cancelled."""
        ended = dict.fromkeys(self.uses.containers, -1)

        def up() -> list[ContainerSeen]:
            return [c for c in self._seen() if c.state == "running" and c.restarts > ended[c.name]]

        while await self.node.history.until(lambda: bool(up()), math.inf):
            for container in up():
                ended[container.name] = container.restarts
                with suppress(UnknownIdError):  # it has already terminated, and the status is not here yet
                    await self[container.name].ends(1)

    def has_run(self) -> bool:
        """Whether a container of the pod runs now, or has terminated."""
        return any(c.state in ("running", "terminated") or c.restarts for c in self._seen())

    async def is_gone(self) -> None:
        """Wait until the API server has no such pod."""
        await self.node.until(lambda: self.status is None, "start", f"pod {self.name} is deleted", self)

    async def is_deleted(self, grace: int | None = None) -> None:
        """Delete the pod, with this grace period in seconds if given. Do not wait for its end."""
        self.node.log(f"pod {self.name} is deleted")
        await self.node.target.api.delete(PODS, self.name, self.node.namespace, grace)

    async def gets_ephemeral_container(self, name: str) -> None:
        """Add an ephemeral container, as `kubectl debug` does."""
        self.node.log(f"pod {self.name} gets the ephemeral container {name}")
        container = {"name": name, **self.node.target.workload}
        await self.node.target.api.add_ephemeral_container(self.name, self.node.namespace, container)

    async def object(self) -> Object:
        """The Pod object that the API server now has."""
        return await self.node.target.api.get(PODS, self.name, self.node.namespace)

    async def gpu_of(self, driver: Driver) -> Gpu:
        """The only device of the driver in claims that are reserved for this pod."""
        found = await self.gpus_of(driver)
        self.node.check(len(found) == 1, f"pod {self.name} has one device of {driver}", [gpu.name for gpu in found])
        return found[0]

    async def gpus_of(self, driver: Driver) -> list[Gpu]:
        """The devices of the driver in claims that are reserved for this pod."""
        claims = await self.node.target.api.list(CLAIMS, self.node.namespace)
        mine = [c for c in claims if any(r["uid"] == self.uid for r in c.get("status", {}).get("reservedFor") or ())]
        results = [result for claim in mine for result in claim["status"]["allocation"]["devices"]["results"]]
        return [Gpu(driver, result["device"]) for result in results if result["driver"] == driver.name]

    async def held(self) -> tuple[HeldDevice, ...]:
        """The devices of its claims, those of the claim for its extended resources included."""
        listed = await self.node.target.api.list(CLAIMS, self.node.namespace)
        claims = {claim["metadata"]["name"]: claim for claim in listed if is_allocated(claim)}
        return devices_held(await self.object(), claims).devices

    async def gpus(self) -> list[Gpu]:
        """The devices of all its claims."""
        return [gpu for claim in self.uses.claims for gpu in await self.node.allocated(claim)]

    async def devices_of(self, plugin: DevicePlugin) -> list[PluginGpu]:
        """Wait until the status shows devices of the plugin, and return them."""
        await self.node.until(
            lambda: bool(self._ids_in(plugin.resource)),
            "start",
            f"pod {self.name} has an entry {plugin.resource}",
            self,
            replace(self.sought, driver=plugin.resource),
        )
        return [plugin.gpu(name) for name in sorted(self._ids_in(plugin.resource))]

    async def has_one_device_each(self, plugin: DevicePlugin) -> None:
        """Wait until each container with a request for the plugin has a device of its own."""
        asking = [name for name, uses in self.uses.containers.items() if ResourceRequest(plugin) in uses]

        def is_true() -> bool:
            found = [_ids(c).get(plugin.resource, set()) for c in self._seen() if c.name in asking]
            return len(found) == len(asking) == len(set().union(*found)) == sum(map(len, found))

        await self.node.until(is_true, "push", f"the containers {asking} of pod {self.name} each have one device", self)

    async def shows_somewhere(self, gpu: PluginGpu, health: Health) -> None:
        """Wait until a container shows the device with this health, and no container with another one."""

        def is_true() -> bool:
            users = [c for c in self._seen() if gpu.name in _ids(c).get(gpu.entry, ())]
            return bool(users) and all(shows_health(c.resources or (), gpu.name, health, "", gpu.entry) for c in users)

        expected, sought = (
            f"a container of pod {self.name} shows {gpu} {health}",
            sought_in(self, gpu, health, "", None),
        )
        await self.node.until(is_true, "push", expected, self, sought)

    def _ids_in(self, entry: str) -> set[str]:
        return {name for c in self._seen() for name in _ids(c).get(entry, ())}

    def __str__(self) -> str:
        return format_event(self.status).strip() if self.status else f"no status of pod {self.name}"

    def _seen(self) -> Sequence[ContainerSeen]:
        return self.status.containers if self.status else ()

    def _shown(self, gpu: Gpu | PluginGpu, health: Health, message: str | None, entry: str | None) -> bool:
        name = gpu.resource_id(self.node.profile)
        message = required_message(self.node, gpu, message)
        users = [c for c in self._seen() if self.uses.containers[c.name]]
        return bool(users) and all(
            shows_health(c.resources or (), name, health, message, entry or gpu.entry) for c in users
        )

    def _sought(self, gpu: Gpu | PluginGpu, health: Health, message: str | None, entry: str | None = None) -> Sought:
        users = [name for name, uses in self.uses.containers.items() if uses]
        return sought_in(self, gpu, health, message, users, entry)

    def _runs(self) -> bool:
        is_complete = len(self._seen()) == len(self.uses.containers)
        is_in_phase = self.status is not None and self.status.phase == "Running"
        return is_complete and is_in_phase and all(container.state == "running" for container in self._seen())

    async def _until(
        self, expected: str, true: Callable[[ContainerSeen], bool], window: Window, sought: Sought | None = None
    ) -> None:
        def all_true() -> bool:
            return len(self._seen()) == len(self.uses.containers) and all(true(c) for c in self._seen())

        await self.node.until(all_true, window, expected, self, sought or self.sought)


def _healths(text: str) -> set[str]:
    """The healths that a text names, in any case and also within a word. "Unhealthy" is not "Healthy"."""
    return {word.capitalize() for word in re.findall("unhealthy|healthy|unknown", text.lower())}


def _ids(container: ContainerSeen) -> dict[str, set[str]]:
    return entry_ids(container.resources or ())


# The ReplicaSets of a scenario.


class ReplicaSet:
    """A ReplicaSet of the scenario. Each of its pods gets its own claims from templates."""

    def __init__(self, node: PodNode, name: str, users: PodUses) -> None:
        self.node = node
        self.name = name
        self._uses = users
        self._returned: set[str] = set()

    async def next_pod(self) -> Pod:
        """Wait for the next new pod, and until it runs."""
        expected = f"ReplicaSet {self.name} creates another pod"
        await self.node.until(lambda: bool(self._new()), "start", expected, "no new pod")
        name, uid = self._new()[0]
        self._returned.add(uid)
        pod = Pod(self.node, name, uid, self._uses)
        await pod.is_running()
        return pod

    def _new(self) -> list[tuple[str, str]]:
        seen = [event for event in self.node.history.of(StatusSeen) if event.pod.startswith(f"{self.name}-")]
        return [(event.pod, event.uid) for event in seen if event.uid not in self._returned]


def replica_set_manifest(name: str, pod: Object) -> Object:
    """A ReplicaSet with one replica of this pod."""
    meta, labels = pod["metadata"], {"app": name}
    return {
        "apiVersion": REPLICA_SETS.api_version,
        "kind": REPLICA_SETS.kind,
        "metadata": {"name": name, "namespace": meta["namespace"]},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod["spec"]},
        },
    }
