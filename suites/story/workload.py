"""The story's workload: pods whose status is watched."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Protocol

from drahealth.fakes.cluster.api import CLAIMS, PODS
from drahealth.fakes.cluster.containers.runtime import UnknownIdError
from drahealth.proto.events import ContainerSeen, EventSeen, StatusSeen, Unprepared
from drahealth.proto.values import Health, ResourceHealth
from drahealth.suites.judging.history_text import tell
from drahealth.suites.story.claims import Claim, Claims
from drahealth.suites.story.device_plugin import Ask, DevicePlugin, PluginGpu
from drahealth.suites.story.hardware import Driver, Gpu
from drahealth.suites.story.places import MessageNode, Place, entry_ids, says
from drahealth.suites.story.pod_manifest import Users
from drahealth.suites.targets.target import Window


class PodNode(MessageNode, Protocol):
    """A node that pods with claims run on."""

    @property
    def namespace(self) -> str: ...

    @property
    def claims(self) -> Claims: ...

    async def allocated(self, claim: Claim) -> list[Gpu]:
        """The devices that the scheduler gave to the claim."""


EXIT_AT_ONCE = ("sh", "-c", "exit 1")
"""The command of a container that fails whenever it starts."""


class Pod:
    """A pod of the scenario. Its `shows` and `is_...` wait; `still_shows` looks at the status that there is."""

    def __init__(self, node: PodNode, name: str, uid: str, users: Users) -> None:
        self.node = node
        self.name = name
        self.uid = uid
        self.users = users
        self.own = Place(self, "")

    def __getitem__(self, container: str) -> Place:
        """The container of this name, be it an init container; `own` is where the pod's own entries are."""
        return Place(self, container)

    @property
    def status(self) -> StatusSeen | None:
        """The newest status that a client saw."""
        return self.node.latest(self.uid)

    def has_stayed(self, status: StatusSeen | None) -> bool:
        """No client has seen another status of it since it first had this one."""
        seen = [event for event in self.node.history.of(StatusSeen) if event.uid == self.uid]
        return status in seen and all(later == status for later in seen[seen.index(status) :])

    async def is_running(self) -> None:
        await self._until("every container runs", lambda c: c.state == "running", "start")

    async def is_in_back_off(self) -> None:
        """A container that failed waits before it is started again."""
        await self._until("a container is in CrashLoopBackOff", lambda c: c.state == "CrashLoopBackOff", "start")

    async def is_(self, phase: str) -> None:
        """The pod is in this phase (Succeeded, Failed, ...)."""
        expected = f"pod {self.name} is {phase}"
        await self.node.until(lambda: self.status is not None and self.status.phase == phase, "start", expected, self)

    async def is_left_by_the_kubelet(self, phase: str) -> None:
        """It has terminated in this phase, and its claims, which no other pod holds, are unprepared."""
        claims = {(await self.node.claims.object(claim))["metadata"]["uid"] for claim in self.users.claims}
        await self.is_(phase)
        await self.node.until(
            lambda: claims <= {event.claim_uid for event in self.node.history.of(Unprepared)},
            "start",
            f"the claims of pod {self.name} are unprepared",
            "no such call",
        )

    def has_never_restarted(self) -> bool:
        """None of its containers was started again."""
        return bool(self._seen()) and all(c.restarts == 0 for c in self._seen())

    async def shows(
        self,
        gpu: Gpu | PluginGpu,
        health: Health,
        message: str | None = None,
        within: Window = "push",
        entry: str | None = None,
    ) -> None:
        """Each container that uses the device shows it so, in that entry if one is named.

        A status that says so already counts: give each change a message of its own to tell it from the one before.

        `message` None: any; "": none at all.
        """
        expected = f"pod {self.name} shows {gpu} {health}" + (f" {message!r}" if message else "")
        await self.node.until(lambda: self._shown(gpu, health, message, entry), within, expected, self)

    def still_shows(self, gpu: Gpu | PluginGpu, health: Health, message: str | None = None) -> None:
        """The newest status shows it so."""
        expected = f"pod {self.name} still shows {gpu} {health}" + (f" {message!r}" if message else "")
        self.node.check(self._shown(gpu, health, message, None), expected, self)

    async def shows_entries(self, expected: Mapping[str, Sequence[Gpu | PluginGpu]], within: Window = "push") -> None:
        """Every container has exactly these entries, each with exactly these devices."""
        wanted = {name: {gpu.resource_id(self.node.profile) for gpu in gpus} for name, gpus in expected.items()}
        words = f"pod {self.name} has the entries {wanted}"
        await self._until(words, lambda c: _ids(c) == wanted, within)

    async def shows_only_in(self, *containers: str) -> None:
        """Just these containers have entries."""
        words = f"pod {self.name} has entries in {', '.join(containers)} only"
        await self._until(words, lambda c: bool(c.resources) == (c.name in containers), "push")

    async def shows_no_health(self, within: Window = "restart") -> None:
        """The field is not there, in any container."""
        await self._until(f"pod {self.name} has no allocatedResourcesStatus", lambda c: c.resources is None, within)
        for name in ("", *self.users.init, *self.users.sidecars):
            await self[name].shows_nothing(within)

    def ids(self) -> set[str]:
        """What the devices are called in the newest status, whatever the profile says."""
        return {name for c in self._seen() for ids in _ids(c).values() for name in ids}

    async def has_devices(self, count: int, within: Window = "push") -> None:
        """So many devices stand in the status of every container, under whatever names."""
        words = f"pod {self.name} shows {count} devices"
        await self._until(words, lambda c: sum(map(len, _ids(c).values())) == count, within)

    def resources(self, gpu: Gpu | PluginGpu) -> list[ResourceHealth]:
        """What the newest status says of the device, wherever it does."""
        name = gpu.resource_id(self.node.profile)
        return [r for c in self._seen() for e in c.resources or () for r in e.resources if r.resource_id == name]

    def events(self, gpu: Gpu | None = None) -> list[EventSeen]:
        """The events on the pod so far, each as often as its count was seen to grow; those that name the device."""
        mine = [event for event in self.node.history.of(EventSeen) if event.uid == self.uid]
        return [event for event in mine if gpu is None or gpu.name in event.message]

    def has_event(self, gpu: Gpu, health: Health) -> None:
        """An event on the pod names the device and this health, be it in its reason or in its message."""
        words = [f"{event.reason} {event.message}" for event in self.events()]
        told = any(gpu.name in text and health in _healths(text) for text in words)
        self.node.check(told, f"an event on pod {self.name} tells that {gpu} is {health}", "; ".join(words) or "none")

    def orders(self) -> set[tuple[str, ...]]:
        """The orders in which the entries of a container have stood, of all statuses that had any."""
        statuses = [status for status in self.node.history.of(StatusSeen) if status.uid == self.uid]
        return {tuple(e.name for e in c.resources) for status in statuses for c in status.containers if c.resources}

    async def ends(self, code: int = 0) -> None:
        """All its containers end with this exit code; sidecars are left to the kubelet."""
        self.node.tell(f"the containers of pod {self.name} end with {code}")
        for container in self.users.containers:
            await self.node.target.end_container(self.uid, container, code)

    async def keeps_failing(self) -> None:
        """Its containers fail, as often as it takes until one waits in CrashLoopBackOff."""
        for restarts in count():

            def is_up_or_waits(container: ContainerSeen, restarts: int = restarts) -> bool:
                runs = container.state == "running" and container.restarts >= restarts
                return runs or container.state == "CrashLoopBackOff"

            await self._until("a container runs again, or waits for that", is_up_or_waits, "start")
            if any(container.state == "CrashLoopBackOff" for container in self._seen()):
                return
            await self.ends(1)

    async def fails_whenever_it_runs(self) -> None:
        """Its containers fail as soon as they are seen to run, again and again, until this is cancelled."""
        ended = dict.fromkeys(self.users.containers, -1)

        def up() -> list[ContainerSeen]:
            return [c for c in self._seen() if c.state == "running" and c.restarts > ended[c.name]]

        while await self.node.history.until(lambda: bool(up()), math.inf):
            for container in up():
                ended[container.name] = container.restarts
                with suppress(UnknownIdError):  # it has ended already, though nobody has seen it yet
                    await self[container.name].ends(1)

    async def is_deleted(self) -> None:
        """Somebody deletes it; it goes by and by."""
        self.node.tell(f"pod {self.name} is deleted")
        await self.node.target.api.delete(PODS, self.name, self.node.namespace)

    async def gpu_of(self, driver: Driver) -> Gpu:
        """The one device of the driver that a claim which is reserved for it was allocated."""
        found = await self.gpus_of(driver)
        self.node.check(len(found) == 1, f"pod {self.name} has one device of {driver}", [gpu.name for gpu in found])
        return found[0]

    async def gpus_of(self, driver: Driver) -> list[Gpu]:
        """The devices of the driver that claims which are reserved for it were allocated."""
        claims = await self.node.target.api.list(CLAIMS, self.node.namespace)
        mine = [c for c in claims if any(r["uid"] == self.uid for r in c.get("status", {}).get("reservedFor") or ())]
        results = [result for claim in mine for result in claim["status"]["allocation"]["devices"]["results"]]
        return [Gpu(driver, result["device"]) for result in results if result["driver"] == driver.name]

    async def gpus(self) -> list[Gpu]:
        """The devices that were allocated to its claims."""
        return [gpu for claim in self.users.claims for gpu in await self.node.allocated(claim)]

    async def devices_of(self, plugin: DevicePlugin) -> list[PluginGpu]:
        """The devices of the plugin that it was allocated, as its status has them; it has some by and by."""
        await self.node.until(
            lambda: bool(self._ids_in(plugin.resource)),
            "start",
            f"pod {self.name} has an entry {plugin.resource}",
            self,
        )
        return [plugin.gpu(name) for name in sorted(self._ids_in(plugin.resource))]

    async def has_one_device_each(self, plugin: DevicePlugin) -> None:
        """Each container that asks for its devices has one, and no two have the same."""
        asking = [name for name, uses in self.users.containers.items() if Ask(plugin) in uses]

        def so() -> bool:
            found = [_ids(c).get(plugin.resource, set()) for c in self._seen() if c.name in asking]
            return len(found) == len(asking) == len(set().union(*found)) == sum(map(len, found))

        await self.node.until(so, "push", f"the containers {asking} of pod {self.name} have a device each", self)

    async def shows_somewhere(self, gpu: PluginGpu, health: Health) -> None:
        """A container shows the device so, and none otherwise."""

        def so() -> bool:
            users = [c for c in self._seen() if gpu.name in _ids(c).get(gpu.entry, ())]
            return bool(users) and all(says(c.resources or (), gpu.name, health, "", gpu.entry) for c in users)

        await self.node.until(so, "push", f"a container of pod {self.name} shows {gpu} {health}", self)

    def _ids_in(self, entry: str) -> set[str]:
        return {name for c in self._seen() for name in _ids(c).get(entry, ())}

    def __str__(self) -> str:
        return tell(self.status).strip() if self.status else f"no status of pod {self.name}"

    def _seen(self) -> Sequence[ContainerSeen]:
        return self.status.containers if self.status else ()

    def _shown(self, gpu: Gpu | PluginGpu, health: Health, message: str | None, entry: str | None) -> bool:
        name = gpu.resource_id(self.node.profile)
        if message and isinstance(gpu, Gpu) and not self.node.insists_on_messages_of(gpu.driver):
            message = ""
        users = [c for c in self._seen() if self.users.containers[c.name]]
        return bool(users) and all(says(c.resources or (), name, health, message, entry or gpu.entry) for c in users)

    async def _until(self, expected: str, true: Callable[[ContainerSeen], bool], window: Window) -> None:
        def all_true() -> bool:
            return len(self._seen()) == len(self.users.containers) and all(true(c) for c in self._seen())

        await self.node.until(all_true, window, expected, self)


def _healths(text: str) -> set[str]:
    """The healths that a text names, in whatever case and be it amid a word; Unhealthy is not Healthy."""
    return {word.capitalize() for word in re.findall("unhealthy|healthy|unknown", text.lower())}


def _ids(container: ContainerSeen) -> dict[str, set[str]]:
    return entry_ids(container.resources or ())
