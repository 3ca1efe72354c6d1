"""The readiness of a deployment, and the reason if it is not ready. Pure functions over its objects."""

from collections.abc import Iterable, Iterator, Sequence

from drahealth.fakes.cluster.api import Object

_HOPELESS = frozenset(
    {
        "ImagePullBackOff",
        "ErrImagePull",
        "ErrImageNeverPull",
        "InvalidImageName",
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
    }
)
"""Reasons of a waiting container that do not pass by waiting."""

_EVENTS = 3
_LONGEST = 400


def is_rolled_out(daemon_set: Object) -> bool:
    """Whether every node has a Ready pod of the newest template."""
    status = daemon_set.get("status", {})
    wanted = status.get("desiredNumberScheduled", 0)
    seen = status.get("observedGeneration", 0) >= daemon_set["metadata"].get("generation", 0)
    return bool(seen and wanted) and all(
        status.get(count, 0) == wanted for count in ("updatedNumberScheduled", "numberReady", "numberAvailable")
    )


def by_node(pods: Iterable[Object]) -> dict[str, str]:
    """The names of the pods by their nodes; only those that are Ready and not being deleted."""
    return {
        pod["spec"]["nodeName"]: pod["metadata"]["name"]
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"] and _condition(pod, "Ready").get("status") == "True"
    }


def hopeless(pods: Iterable[Object]) -> str:
    """Why one of the pods cannot start, as a clause; empty if all may."""
    for pod in pods:
        for status in pod.get("status", {}).get("containerStatuses", []):
            waiting = status.get("state", {}).get("waiting", {})
            if waiting.get("reason") in _HOPELESS:
                return f"{_place(pod)}: {'; '.join(_waiting(status))}"
    return ""


def missing(daemon_set: Object, pods: Sequence[Object], events: Iterable[Object]) -> str:
    """Why the deployment is not ready, as a clause, from conditions and events."""
    names = {daemon_set["metadata"]["name"], *(pod["metadata"]["name"] for pod in pods)}
    found = [*_conditions(pods)] or [f"{len(pods)} pods there"]
    warned = [e for e in events if e.get("type") == "Warning" and e.get("involvedObject", {}).get("name") in names]
    warnings = dict.fromkeys(str(event.get("message", "")) for event in warned)
    return _short("; ".join([*found, *list(warnings)[-_EVENTS:]]))


def gone(pod: Object | None, name: str) -> str:
    """Why the pod no longer runs, as a sentence; empty if it runs. None stands for a missing pod."""
    if pod is None:
        return f"the pod {name} of the driver was deleted"
    status = pod.get("status", {})
    if status.get("reason") == "Evicted":
        return _short(
            f"the pod {name} of the driver was evicted from {_node(pod)}: {status.get('message', 'no reason given')}"
        )
    if "deletionTimestamp" in pod["metadata"]:
        why = _condition(pod, "DisruptionTarget").get("message", "")
        return _short(f"the pod {name} of the driver is being deleted{': ' if why else ''}{why}")
    if status.get("phase") in ("Failed", "Succeeded"):
        why = status.get("message") or "; ".join(_ends(pod)) or "no reason given"
        return _short(f"the pod {name} of the driver has ended: {why}")
    return ""


def _conditions(pods: Iterable[Object]) -> Iterator[str]:
    for pod in pods:
        scheduled = _condition(pod, "PodScheduled")
        waits = [text for s in pod.get("status", {}).get("containerStatuses", []) for text in _waiting(s)]
        if scheduled.get("status") == "False":
            yield f"{_place(pod)} cannot be scheduled: {scheduled.get('message', '')}"
        elif waits:
            yield f"{_place(pod)}: {'; '.join(waits)}"
        elif _condition(pod, "Ready").get("status") != "True":
            yield f"{_place(pod)} is {pod.get('status', {}).get('phase', 'Pending')} and not Ready"


def _waiting(status: Object) -> Iterator[str]:
    waiting = status.get("state", {}).get("waiting")
    if waiting:
        yield _short(": ".join(filter(None, (waiting.get("reason"), waiting.get("message")))))
    if ended := status.get("lastState", {}).get("terminated"):
        yield f"it ended before: {_ended(ended)}"


def _ends(pod: Object) -> Iterator[str]:
    for status in pod.get("status", {}).get("containerStatuses", []):
        if ended := status.get("state", {}).get("terminated"):
            yield _ended(ended)


def _ended(terminated: Object) -> str:
    """The exit code, and the last line of output."""
    lines = str(terminated.get("message", "")).strip().splitlines()
    words = f"exit code {terminated.get('exitCode', '?')} ({terminated.get('reason', 'no reason')})"
    return _short(f"{words}: {lines[-1]}" if lines else words)


def _condition(pod: Object, kind: str) -> Object:
    conditions = pod.get("status", {}).get("conditions", [])
    return next((condition for condition in conditions if condition["type"] == kind), {})


def _place(pod: Object) -> str:
    return f"pod {pod['metadata']['name']} on {_node(pod)}"


def _node(pod: Object) -> str:
    return str(pod.get("spec", {}).get("nodeName") or "no node yet")


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
