"""A client's view of the pods in a namespace: statuses, states and devices."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

from drahealth.fakes.cluster.api import CLAIMS, EVENTS, PODS, ListWatch, Object
from drahealth.fakes.cluster.mirror import PodWatch, after
from drahealth.fakes.cluster.scheduling.claims import is_allocated
from drahealth.proto.events import (
    ContainerRun,
    DevicesHeld,
    EventSeen,
    HeldDevice,
    HeldResource,
    PodRewritten,
    PodStateSeen,
    StatusSeen,
    Step,
)
from drahealth.proto.values import is_extended_resource
from drahealth.suites.story.history import History

# The devices that a Pod object holds, from its spec and the allocations of its claims. Pure.


def claim_names(pod: Object) -> dict[str, str]:
    """The names of the pod's ResourceClaims, by their names in the pod. Claims that do not exist yet are missing.

    The claim for its extended resources (KEP-5004) is not in its spec. It has the name of its object.
    """
    made = {
        one["name"]: one.get("resourceClaimName") for one in pod.get("status", {}).get("resourceClaimStatuses") or ()
    }
    named = {one["name"]: one.get("resourceClaimName") for one in pod["spec"].get("resourceClaims") or ()}
    extended = _extended(pod).get("resourceClaimName")
    found = {name: found for name, given in named.items() if (found := given or made.get(name))}
    return {**found, extended: extended} if extended else found


def devices_held(pod: Object, claims: Mapping[str, Object]) -> DevicesHeld:
    """The devices of the pod. `claims` has allocated ResourceClaims by name; others have no devices."""
    meta = pod["metadata"]
    return DevicesHeld(meta["name"], meta["uid"], tuple(_claimed(pod, claims)), tuple(_requested(pod)))


def _claimed(pod: Object, claims: Mapping[str, Object]) -> Iterator[HeldDevice]:
    uses: dict[str, list[tuple[str, str | None]]] = {}
    for container in _containers(pod):
        for use in container.get("resources", {}).get("claims") or ():
            uses.setdefault(use["name"], []).append((container["name"], use.get("request")))
    for mapping in _extended(pod).get("requestMappings") or ():
        name = _extended(pod)["resourceClaimName"]
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


def _extended(pod: Object) -> Object:
    return pod.get("status", {}).get("extendedResourceClaimStatus") or {}


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
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

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
