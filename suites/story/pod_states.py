"""Conversion of Pod objects to events on what health must not change. Pure."""

from collections.abc import Iterator
from typing import Any

from drahealth.fakes.cluster.api import Object
from drahealth.proto.events import ContainerRun, PodStateSeen

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
