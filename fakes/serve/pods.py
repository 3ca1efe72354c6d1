"""The pods of a node: those that a program watches, and the health that their annotations ask for."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from drahealth.fakes.cluster.api import CLAIMS, PODS, Api, ApiError, Kind, ListWatch, Object
from drahealth.fakes.cluster.mirror import Mirror
from drahealth.fakes.cluster.pods import claim_names, is_terminal
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.fakes.kubelet_plugin.health_table import HealthOverride
from drahealth.fakes.timelines.plan import Expect
from drahealth.fakes.timelines.play import Story
from drahealth.fakes.waiting import Changes
from drahealth.proto.events import DriverEvent, Prepared, StreamOpened, Unprepared
from drahealth.proto.quoting import one_line
from drahealth.proto.values import DeviceId, Health, ResourceHealth

# The current pods of a node, for those parts that read their annotations or statuses.

RETRY = 1.0
"""Seconds until pods are asked for again that could not be had."""
REFUSED = 10.0
"""The same after a refusal, such as for a right that is missing."""

log = logging.getLogger(__name__)

_REPORTED_HEALTH = {str(health): health for health in Health}


class NodePods:
    """The pods of `source`, which can be a selection. During an API server outage the last known pods stay."""

    def __init__(self, source: ListWatch) -> None:
        self.problem = ""
        """Why they are not followed now; empty while they are."""
        self._mirror = Mirror(source, [PODS], self._changed, again=self._again, listed=self._listed)
        self._hearers: list[Callable[[], None]] = []

    def add(self, changed: Callable[[], None]) -> None:
        """Adds a function that is called after each change."""
        self._hearers.append(changed)

    def all(self) -> list[Object]:
        """All pods. Do not change them."""
        return self._mirror.objects(PODS)

    async def run(self) -> None:
        """Follows the pods until cancelled."""
        await self._mirror.run()

    async def _again(self, error: ApiError | None) -> None:
        if error and error.status != 410 and not self.problem:
            log.warning("pods cannot be watched, their last annotations apply: %s", error)
            self.problem = f"pods cannot be watched: {error}"
        await asyncio.sleep(RETRY if error is None or error.status in (410, 503) else REFUSED)

    def _listed(self) -> None:
        if self.problem:
            log.warning("pods are watched again")
        self.problem = ""
        self._notify()

    def _changed(self, kind: Kind, old: Object | None, new: Object | None) -> None:
        if not self._mirror.is_listing:
            self._notify()

    def _notify(self) -> None:
        for changed in self._hearers:
            changed()


def shown(pod: Object, ids: Collection[str], entry: str = "") -> Iterator[ResourceHealth]:
    """The devices with these ids in the statuses of a running pod's containers.

    `entry` limits this to an extended resource, because other resources can have the same ids (core/v1
    `ResourceStatus`); empty means any entry.
    """
    if is_terminal(pod):
        return
    status = pod.get("status", {})
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        for named in container.get("allocatedResourcesStatus") or ():
            for found in (named.get("resources") or ()) if entry in ("", named.get("name")) else ():
                if found.get("resourceID") in ids:
                    health = _REPORTED_HEALTH.get(found.get("health", ""), Health.UNKNOWN)
                    yield ResourceHealth(found["resourceID"], health, found.get("message", ""))


# Observes the calls to drivers, and the statuses of pods, for timelines that wait for them or expect them.

_EVENTS: Mapping[str, type[DriverEvent]] = {
    "NodePrepareResources": Prepared,
    "NodeUnprepareResources": Unprepared,
    "NodeWatchResources": StreamOpened,
}
"""The event of a call, by the method's name in timelines."""


class PodObserver:
    """Counts the calls of each driver and reads pod statuses, if it gets `pods`. `changes` notifies of both."""

    def __init__(self, pods: NodePods | None = None) -> None:
        self.changes = Changes()
        self.newest = object()
        """Another object after each change of a pod."""
        self._pods = pods
        self._calls = Counter[tuple[str, type[DriverEvent]]]()
        if pods:
            pods.add(self._pod_changed)

    def __call__(self, event: DriverEvent, /) -> None:
        if type(event) in _EVENTS.values():
            self._calls[event.driver, type(event)] += 1
            self.changes.notify()

    def _pod_changed(self) -> None:
        self.newest = object()
        self.changes.notify()

    def calls(self, driver: str, method: str | None = None) -> int:
        """Number of calls of a driver since the start of the process: those of one method, or all."""
        events = [_EVENTS[method]] if method else _EVENTS.values()
        return sum(self._calls[driver, event] for event in events)

    def shown(self, ids: Collection[str], entry: str = "") -> list[ResourceHealth]:
        """The health of devices with these IDs in the statuses of pods on the node (`node_pods.shown`)."""
        return [found for pod in (self._pods.all() if self._pods else ()) for found in shown(pod, ids, entry)]

    @property
    def problem(self) -> str:
        """Why pod statuses are unavailable now; empty if they are available."""
        return self._pods.problem if self._pods else ""


def looks_at_pods(stories: Iterable[Story]) -> bool:
    """Whether any of them has an expectation or a trigger on a pod status."""
    actions = (action for story in stories for action in (*story.plan.actions, *story.plan.always))
    return any(isinstance(one.do, Expect) or bool(one.trigger and one.trigger.seen) for one in actions)


# Health from Pod annotations: `health.example.com/gpu-0: unhealthy`, as in the example driver of DRA.
#
# A pod of the node sets the health of devices of its prepared claims; the driver's own pod sets that of all devices.
# The worst of several values counts. An annotation never improves a device's health.

PREFIX = "health.example.com"
"""Seconds until a failed read of claims is repeated."""

_MOST_LOGGED = 1000
"""Warnings that are remembered, so that each is logged once."""


_HEALTH = {health.lower(): health for health in Health}


@dataclass(frozen=True, slots=True)
class Annotation:
    """One annotation: a device, by its name in the API, and its health."""

    key: str
    """With the pod: `pod NAMESPACE/NAME, KEY`."""
    device: str
    override: HealthOverride


def annotations_of(pod: Object, prefix: str) -> Iterator[Annotation | str]:
    """The annotations of a pod; an error message for an invalid one."""
    name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    for key, value in sorted((pod["metadata"].get("annotations") or {}).items()):
        group, _, device = key.partition("/")
        if group != prefix:
            continue
        if health := _HEALTH.get(value.strip().lower()):
            override = HealthOverride(health, f"set {health} by annotation {key} of pod {name}")
            yield Annotation(f"pod {name}, {key}", device, override)
        else:
            odd = one_line(value, 60)
            yield f"pod {name}, {key}: unknown health {odd!r}; use healthy, unhealthy or unknown; ignoring it"


def worst_overrides(annotations: Iterable[tuple[Annotation, Collection[DeviceId]]]) -> dict[DeviceId, HealthOverride]:
    """The override of each device from the permitted pods: the worst health, the first of equal ones."""
    worst: dict[DeviceId, HealthOverride] = {}
    for one, devices in annotations:
        for device in devices:
            if device.device == one.device:
                worst[device] = worst[device] | one.override if device in worst else one.override
    return worst


class PodAnnotations:
    """Follows the pods of a node, and sets overrides in these drivers.

    The caller keeps `pods` current, `api` is for claims, `own` is the namespace and name of the pod in which this
    process runs, if any. During an API server outage the last overrides stay.
    """

    def __init__(
        self,
        pods: NodePods,
        api: Api,
        drivers: Sequence[FakeDriver],
        *,
        prefix: str = PREFIX,
        own: tuple[str, str] | None = None,
    ) -> None:
        self._pods = pods
        self._api = api
        self._drivers = drivers
        self._prefix = prefix
        self._own = own
        self._ours = frozenset(device for driver in drivers for device in _all(driver))
        self._known = frozenset(device.device for device in self._ours)
        self._logged: set[str] = set()
        self._woken = asyncio.Event()
        pods.add(self.wake)

    def wake(self) -> None:
        """Called after pods or prepared claims have changed."""
        self._woken.set()

    async def run(self) -> None:
        """Applies annotations until cancelled, while the caller keeps the pods current."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            with suppress(ApiError):  # a claim cannot be read: the last overrides stay
                await self.apply()
                continue
            await asyncio.sleep(RETRY)
            self._woken.set()

    async def apply(self) -> None:
        """Sets the current overrides. Raises ApiError if a claim cannot be read; then nothing changes."""
        found = [(one, pod) for pod in self._pods.all() for one in self._valid(pod)]
        held = {uid: await self._held(pod) for uid, pod in {id(pod): pod for _, pod in found}.items()}
        worst = worst_overrides((one, held[id(pod)]) for one, pod in found)
        for driver in self._drivers:
            name = driver.options.name
            driver.health.table.set_overrides(
                {(d.pool, d.device): override for d, override in worst.items() if d.driver == name}
            )

    # -- inside

    def _valid(self, pod: Object) -> Iterator[Annotation]:
        for one in annotations_of(pod, self._prefix):
            if isinstance(one, str):
                self._warn_once(one)
            elif one.device not in self._known:
                self._warn_once(f"{one.key}: unknown device {one_line(one.device, 80)!r}; ignoring it")
            else:
                yield one

    def _warn_once(self, sentence: str) -> None:
        if len(self._logged) > _MOST_LOGGED:
            self._logged.clear()
        if sentence not in self._logged:
            self._logged.add(sentence)
            log.warning("%s", sentence)

    async def _held(self, pod: Object) -> Collection[DeviceId]:
        """The devices that a pod may override."""
        metadata = pod["metadata"]
        if self._own == (metadata["namespace"], metadata["name"]):
            return self._ours
        found = set[DeviceId]()
        prepared = {driver.options.name: frozenset((await driver.state()).prepared) for driver in self._drivers}
        for name in claim_names(pod).values():
            claim = await self._claim(name, metadata["namespace"])
            found |= {
                device for device in _allocated(claim) if claim["metadata"]["uid"] in prepared.get(device.driver, ())
            }
        return found & self._ours  # a device that was prepared earlier may be removed by now

    async def _claim(self, name: str, namespace: str) -> Object:
        try:
            return await self._api.get(CLAIMS, name, namespace)
        except ApiError as error:
            if error.status != 404:
                raise
            return {"metadata": {"uid": ""}}


def _all(driver: FakeDriver) -> Iterator[DeviceId]:
    return (DeviceId(driver.options.name, device.pool, device.device) for device in driver.health.all())


def _allocated(claim: Mapping[str, Object]) -> Iterator[DeviceId]:
    results = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
    return (DeviceId(result["driver"], result["pool"], result["device"]) for result in results)
