"""What `kubectl get pods` prints about the containers of a Pod. Pure functions.

Source: Kubernetes 1.37, `pkg/printers/internalversion`, printPod.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from drahealth.fakes.cluster.api import Object

_TERMINAL = ("Succeeded", "Failed")


def pod_ready(pod: Object) -> str:
    """Ready containers and all containers, such as `1/2`; restartable init containers count."""
    restartable = _restartable(pod)
    total = len(_spec(pod).get("containers") or ()) + len(restartable)
    ready = sum(1 for one in _before_failure(pod) if one.get("name") in restartable and _runs_ready(one))
    if _has_initialized(pod):
        ready += sum(1 for one in _statuses(pod, "containerStatuses") if _is_ready(one))
    return f"{ready}/{total}"


def pod_status(pod: Object) -> str:
    """The word in the column STATUS."""
    status = pod.get("status") or {}
    phase, reason = status.get("phase") or "", status.get("reason") or status.get("phase") or ""
    if any(_is(one, "PodScheduled") and one.get("reason") == "SchedulingGated" for one in _conditions(pod)):
        reason = "SchedulingGated"
    reason = _init_reason(pod) or reason
    if _has_initialized(pod):
        reason = _container_reason(pod, reason)
    if "deletionTimestamp" in pod["metadata"]:
        if status.get("reason") == "NodeLost":
            return "Unknown"
        return reason if phase in _TERMINAL else "Terminating"
    return str(reason)


def pod_restarts(pod: Object) -> tuple[int, str]:
    """The number of restarts, and the end of the last container that was restarted; "" without such an end."""
    counted = list(_counted(pod))
    ends = [str(_terminated(one.get("lastState")).get("finishedAt") or "") for one in counted]
    return sum(int(one.get("restartCount") or 0) for one in counted), max(ends, default="")


def readiness_gates(pod: Object) -> str:
    """The true conditions and all readiness gates, such as `1/2`; "" without gates."""
    gates = _spec(pod).get("readinessGates") or ()
    true = {one.get("type") for one in _conditions(pod) if one.get("status") == "True"}
    return f"{sum(1 for gate in gates if gate.get('conditionType') in true)}/{len(gates)}" if gates else ""


def _counted(pod: Object) -> Iterator[Object]:
    """The statuses of the containers whose restarts count."""
    restartable, inits = _restartable(pod), _statuses(pod, "initContainerStatuses")
    if not _has_initialized(pod):
        yield from _until_failure(pod)
    else:
        reached = _until_failure(pod)
        yield from (one for one in inits if one in reached and one.get("name") in restartable)
        yield from _statuses(pod, "containerStatuses")


def _restartable(pod: Object) -> set[str]:
    """The names of init containers that continue to run."""
    return {one["name"] for one in _spec(pod).get("initContainers") or () if one.get("restartPolicy") == "Always"}


def _is_done(pod: Object, status: Object) -> bool:
    """Whether the next init container can start."""
    if (ended := (status.get("state") or {}).get("terminated")) is not None and not ended.get("exitCode"):
        return True
    return status.get("name") in _restartable(pod) and bool(status.get("started"))


def _before_failure(pod: Object) -> list[Object]:
    """The init containers before the first one that is not done."""
    found = []
    for status in _statuses(pod, "initContainerStatuses"):
        if not _is_done(pod, status):
            break
        found.append(status)
    return found


def _until_failure(pod: Object) -> list[Object]:
    return _statuses(pod, "initContainerStatuses")[: len(_before_failure(pod)) + 1]


def _init_reason(pod: Object) -> str:
    """The reason of the first init container that is not done; "" if all are."""
    done, inits = len(_before_failure(pod)), _statuses(pod, "initContainerStatuses")
    if done == len(inits):
        return ""
    state = inits[done].get("state") or {}
    if state.get("terminated") is not None:
        return "Init:" + _ended(state["terminated"])
    waiting = (state.get("waiting") or {}).get("reason")
    if waiting and waiting != "PodInitializing":
        return f"Init:{waiting}"
    return f"Init:{done}/{len(_spec(pod).get('initContainers') or ())}"


def _container_reason(pod: Object, reason: str) -> str:
    has_running, failed = False, ""
    for one in reversed(_statuses(pod, "containerStatuses")):
        state = one.get("state") or {}
        if waiting := (state.get("waiting") or {}).get("reason"):
            reason = waiting
        elif state.get("terminated") is not None:
            reason = _ended(state["terminated"])
            failed = reason if state["terminated"].get("exitCode") else failed
        elif _is_ready(one):
            has_running = True
    if reason != "Completed":
        return reason
    if has_running and any(_is(one, "Ready") and one.get("status") == "True" for one in _conditions(pod)):
        return "Running"
    return failed or ("NotReady" if has_running else reason)


def _ended(terminated: Mapping[str, Any]) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _has_initialized(pod: Object) -> bool:
    initialized = any(_is(one, "Initialized") and one.get("status") == "True" for one in _conditions(pod))
    return initialized or not _init_reason(pod)


def _is_ready(status: Object) -> bool:
    """Whether a container that is not waiting or terminated runs and is ready."""
    state = status.get("state") or {}
    has_ended = (state.get("waiting") or {}).get("reason") or state.get("terminated") is not None
    return bool(status.get("ready")) and state.get("running") is not None and not has_ended


def _runs_ready(status: Object) -> bool:
    return bool(status.get("started") and status.get("ready")) and not _terminated(status.get("state"))


def _terminated(state: Any) -> Mapping[str, Any]:
    return (state or {}).get("terminated") or {}


def _is(condition: Object, type_: str) -> bool:
    return condition.get("type") == type_


def _conditions(pod: Object) -> list[Object]:
    return list((pod.get("status") or {}).get("conditions") or ())


def _statuses(pod: Object, field: str) -> list[Object]:
    return list((pod.get("status") or {}).get(field) or ())


def _spec(pod: Object) -> Object:
    return pod.get("spec") or {}
