"""The history of one scenario: its events, waiting for them, and what a client sees of its Pods."""

import asyncio
import time
from bisect import insort
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from drahealth.fakes.cluster.allocation import is_allocated
from drahealth.fakes.cluster.api import CLAIMS, EVENTS, PODS, ListWatch, Object
from drahealth.fakes.cluster.mirror import PodWatch, after
from drahealth.fakes.cluster.pods import claim_names
from drahealth.fakes.waiting import Changes, cancel_and_wait
from drahealth.manager.profile import Profile
from drahealth.proto.events import (
    ContainerRun,
    DevicesHeld,
    Event,
    EventSeen,
    HeldDevice,
    HeldResource,
    PodRewritten,
    PodStateSeen,
    Record,
    ReportReceived,
    ReportSent,
    StatusSeen,
    Step,
    StreamClosed,
    StreamOpened,
)
from drahealth.proto.values import is_extended_resource
from drahealth.suites.errors import HarnessError
from drahealth.suites.judging.histories import as_read

# The history of one scenario: all events with their times. Callers can wait for a condition on it.

E = TypeVar("E", bound=Event)


_NO_DELAY = 0.1
"""Seconds; a thread of an idle machine waits less for a processor in a whole window."""


def processor_delay() -> float:
    """The seconds for which this thread was ready to run, and waited for a processor, since it began.

    0 where Linux does not tell. Source: Linux, Documentation/scheduler/sched-stats.rst, /proc/<pid>/schedstat.
    """
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


class History:
    """Records events and wakes waiting tasks. Event sources call `observe`."""

    def __init__(self, delay: Callable[[], float] = processor_delay) -> None:
        """`delay` returns for how many seconds the thread has waited for a processor so far."""
        self._delay = delay
        self.records: list[Record] = []
        self._changes = Changes()
        self._statuses = 0

    def observe(self, event: Event) -> None:
        """Record an event that happened now."""
        self.add(Record(time.monotonic(), event))

    def add(self, record: Record) -> None:
        """Record an event of another process, with its time on this machine's monotonic clock.

        It may arrive late. The records stay sorted by time.
        """
        insort(self.records, record, key=lambda other: other.at)
        self._statuses += isinstance(record.what, StatusSeen)
        self._changes.notify()

    def of(self, kind: type[E]) -> Iterator[E]:
        """The events of this type, in order; streams as the drivers saw them, not as the kubelet did."""
        events = (record.what for record in self.records if isinstance(record.what, kind))
        return (event for event in events if not (isinstance(event, StreamOpened | StreamClosed) and event.endpoint))

    def as_read(self, profile: Profile) -> list[Record]:
        """The records, with each report as a kubelet of this profile reads it.

        For a driver that records no events, what the kubelet received stands for what it sent.
        """
        return as_read(self.records, profile)

    async def until(self, true: Callable[[], bool], seconds: float, longest: float = 0.0) -> bool:
        """Wait until `true()`; check again after each event. Returns False after `seconds`.

        A wait may be prolonged, to at most `longest` seconds in all. Each new Pod status begins it again: a slow
        machine shows many changes for longer than one wait. Time in which this thread waited for a processor does not
        count, because everything else in the thread waited as well. That at most doubles a wait: in a longer one, the
        next periodic sync of a kubelet would hide that it missed a change.
        """
        loop = asyncio.get_running_loop()
        end, statuses, delay = loop.time() + longest, self._statuses, self._delay()
        doubled = loop.time() + min(2 * seconds, longest)

        def is_true() -> bool:
            nonlocal statuses
            if self._statuses > statuses:
                limit.reschedule(max(limit.when() or 0.0, min(loop.time() + seconds, end)))
            statuses = self._statuses
            return true()

        until = loop.time() + seconds
        while True:
            try:
                async with asyncio.timeout_at(until) as limit:
                    await self._changes.until(is_true)
                return True
            except TimeoutError:
                if true():
                    return True
            before, delay = delay, self._delay()
            until = min(loop.time() + delay - before, doubled)
            if until < loop.time() + _NO_DELAY:
                return False


# Which reports of drivers the kubelet has received. Pure.


def are_received(records: Iterable[Record]) -> bool:
    """Whether the kubelet has received a report of each driver since the driver sent its last one.

    Only the reference records what it receives; a report on a stream that has ended can be lost.
    """
    sent: dict[str, tuple[str, float]] = {}
    received: dict[str, float] = {}
    for record in records:
        match record.what:
            case ReportSent(driver=driver, stream=stream):
                sent[driver] = stream, record.at
            case ReportReceived(driver=driver):
                received[driver] = record.at
            case StreamClosed(driver=driver, stream=stream) if sent.get(driver, ("", 0.0))[0] == stream:
                del sent[driver]
    return all(at >= sent[driver][1] for driver, at in received.items() if driver in sent)


# The time limit of a whole story.

STORY_LIMIT = 240.0
"""Seconds for a whole story. Each wait has its own limit, so only a hanging harness reaches this one."""


@asynccontextmanager
async def time_limit(failure: str, seconds: float = STORY_LIMIT) -> AsyncIterator[None]:
    """Raises HarnessError, with a message that begins with `failure`, if the block exceeds the limit."""
    try:
        async with asyncio.timeout(seconds) as limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise HarnessError(f"{failure} within {seconds:g} s") from None


# What a client of the API server sees of the Pods of a scenario.

# The devices that a Pod object holds, from its spec and the allocations of its claims. Pure.


def devices_held(pod: Object, claims: Mapping[str, Object]) -> DevicesHeld:
    """The devices of the pod. `claims` has allocated ResourceClaims by name; others have no devices."""
    meta = pod["metadata"]
    return DevicesHeld(meta["name"], meta["uid"], tuple(_claimed(pod, claims)), tuple(_requested(pod)))


def _claimed(pod: Object, claims: Mapping[str, Object]) -> Iterator[HeldDevice]:
    uses: dict[str, list[tuple[str, str | None]]] = {}
    for container in _containers(pod):
        for use in container.get("resources", {}).get("claims") or ():
            uses.setdefault(use["name"], []).append((container["name"], use.get("request")))
    extended = pod.get("status", {}).get("extendedResourceClaimStatus") or {}
    for mapping in extended.get("requestMappings") or ():
        name = extended["resourceClaimName"]
        uses.setdefault(name, []).append((mapping["containerName"], mapping["requestName"]))
    for name, object_name in claim_names(pod).items():
        if object_name not in claims:
            continue
        results = claims[object_name]["status"]["allocation"].get("devices", {}).get("results") or ()
        for container_name, request in uses.get(name, [("", None)]):
            for result in results:
                if request in (None, result["request"].partition("/")[0]):
                    device = (result["driver"], result["pool"], result["device"])
                    yield HeldDevice(container_name, name, result["request"], *device)


def _requested(pod: Object) -> Iterator[HeldResource]:
    for container in _containers(pod):
        for resource, amount in (container.get("resources", {}).get("limits") or {}).items():
            if is_extended_resource(resource):
                yield HeldResource(container["name"], resource, int(amount))


def _containers(pod: Object) -> Iterator[Object]:
    yield from pod["spec"].get("initContainers") or ()
    yield from pod["spec"]["containers"]


# Conversion of Pod objects to events on what health must not change. Pure.

_NOISE = {
    *("resourceVersion", "time", "startTime", "startedAt", "finishedAt", "lastTransitionTime", "lastProbeTime"),
}
"""Keys of a Pod that a write can change although it changes nothing else."""
_FROM_CONTAINERS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
"""Conditions that follow from the containers and the sandbox. Others, such as those of a resize, are left out."""
_PROBES = ("readinessProbe", "startupProbe", "livenessProbe")


def state_seen(pod: Object) -> PodStateSeen | None:
    """The state of a Pod besides health. None if probes or readiness gates decide on it, too."""
    spec, status, metadata = pod["spec"], pod.get("status") or {}, pod["metadata"]
    containers = [*(spec.get("initContainers") or ()), *spec["containers"]]
    if spec.get("readinessGates") or any(one.get(probe) for one in containers for probe in _PROBES):
        return None
    return PodStateSeen(
        pod=metadata["name"],
        uid=metadata["uid"],
        phase=status.get("phase", "Pending"),
        conditions=tuple((one["type"], one["status"]) for one in status.get("conditions") or ()),
        runs=tuple(_runs(spec, status)),
        has_address=bool(status.get("podIP")),
        is_deleting="deletionTimestamp" in metadata,
        texts=tuple(_texts(status)),
    )


def is_rewritten(before: Object, after: Object) -> bool:
    """Whether the second Pod is a later version of the first, and only times have changed."""
    if before["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]:
        return False
    return bool(_without_noise(before) == _without_noise(after))


def _without_noise(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_noise(one) for key, one in value.items() if key not in _NOISE}
    return [_without_noise(one) for one in value] if isinstance(value, list) else value


def _texts(status: Object) -> Iterator[tuple[str, str]]:
    """Reasons and messages of the Pod, and of the conditions that follow from its containers."""
    for one in (status, *(status.get("conditions") or ())):
        if (kind := one.get("type") or "") in ("", *_FROM_CONTAINERS):
            yield from ((kind, text) for key in ("reason", "message") if (text := one.get(key)))


def _runs(spec: Object, status: Object) -> Iterator[ContainerRun]:
    sidecars = {one["name"] for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"}
    for one in status.get("initContainerStatuses") or ():
        yield _run(one, "sidecar" if one["name"] in sidecars else "init")
    for one in status.get("containerStatuses") or ():
        yield _run(one, "regular")


def _run(status: Object, kind: Any) -> ContainerRun:
    state, last = status.get("state") or {}, status.get("lastState") or {}
    return ContainerRun(
        name=status["name"],
        kind=kind,
        state=next((word for word in ("running", "terminated") if word in state), "waiting"),
        id=status.get("containerID") or "",
        restarts=status.get("restartCount", 0),
        ready=status.get("ready", False),
        started=status.get("started") or False,
        exit_code=(state.get("terminated") or {}).get("exitCode"),
        previous=(last.get("terminated") or {}).get("containerID") or "",
        reason=(state.get("waiting") or {}).get("reason") or "",
    )


# A client's view of the pods in a namespace: status changes, deletions, devices, and events on the pods.

_PAUSE = 0.05
"""Seconds until an ended watch is opened again, for example after a restart of the API server."""


class ScenarioWatch:
    """`statuses` holds the newest status of each pod, by uid. The history receives each change. Namespace None: all."""

    def __init__(self, api: ListWatch, namespace: str | None, history: History) -> None:
        followed = {CLAIMS: self._claim_changed, PODS: self._pod_changed, EVENTS: self._event_changed}
        self._pods = PodWatch(api, self._saw, again=after(_PAUSE), namespace=namespace, also=followed)
        self.statuses = self._pods.statuses
        self._history = history
        self._events: dict[str, EventSeen] = {}
        self._claims: dict[str, Object] = {}
        self._held: dict[str, DevicesHeld] = {}
        self._states: dict[str, PodStateSeen] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._pods.run(), name="watch of a scenario")

    async def stop(self) -> None:
        """Stop watching. It does nothing if the watch never started."""
        if self._task:
            await cancel_and_wait(self._task)

    def _saw(self, pod: Object, status: StatusSeen | None) -> None:
        self._history.observe(status or Step(f"pod {pod['metadata']['name']} is deleted"))

    def _pod_changed(self, before: Object | None, pod: Object | None) -> None:
        if pod is None:
            return
        self._note_devices(pod)
        if (seen := state_seen(pod)) and seen != self._states.get(seen.uid):
            self._states[seen.uid] = seen
            self._history.observe(seen)
        if before and not self._pods.is_listing and is_rewritten(before, pod):
            self._history.observe(PodRewritten(pod["metadata"]["name"], pod["metadata"]["uid"]))

    def _claim_changed(self, _: Object | None, claim: Object | None) -> None:
        if claim is None or not is_allocated(claim):
            return  # a pod that has ended keeps what it showed
        name = claim["metadata"]["name"]
        self._claims[name] = claim
        for pod in self._pods.pods():
            if name in claim_names(pod).values():
                self._note_devices(pod)

    def _note_devices(self, pod: Object) -> None:
        held = devices_held(pod, self._claims)
        if (held.devices or held.resources) and held != self._held.get(held.uid):
            self._held[held.uid] = held
            self._history.observe(held)

    def _event_changed(self, _: Object | None, event: Object | None) -> None:
        if event is None or event["involvedObject"].get("kind") != "Pod":
            return
        about, uid = event["involvedObject"], event["metadata"]["uid"]
        type_, reason, message = (event.get(key) or "" for key in ("type", "reason", "message"))
        count = event.get("count") or 1
        seen = EventSeen(about.get("name", ""), about.get("uid", ""), type_, reason, message, count)
        if seen != self._events.get(uid):  # a new list has all events again
            self._events[uid] = seen
            self._history.observe(seen)
