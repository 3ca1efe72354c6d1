"""The status of a pod as a kubelet builds it, whole and anew each time, from what the runtime knows. Pure.

After the Pod API, core/v1 `PodStatus`, and the rules of kubelets for phase and conditions. What others own (claim
statuses, conditions that are not a kubelet's) stays as it was.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from drahealth.fakes.api import Object
from drahealth.fakes.api_server.deletion import timestamp
from drahealth.fakes.containers.runtime import ADDRESS, Container, ContainerState, image_id
from drahealth.fakes.pods import with_condition
from drahealth.proto.values import AllocatedResources


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a container does not run, though it shall."""

    reason: str
    message: str = ""


CREATING = Waiting("ContainerCreating")


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What a status is made of, besides the pod.

    `health` has every `allocatedResourcesStatus`; one without entries is left out. `is_over`: nothing of the pod runs
    or will run again, and its devices are given back; only then it gets a terminal phase.
    """

    containers: Sequence[Container]
    waiting: Mapping[str, Waiting]
    health: AllocatedResources
    has_sandbox: bool
    is_over: bool
    wall: float


def pod_status(pod: Object, facts: PodFacts) -> Object:
    """The pod's whole status, on top of the one it has."""
    old, now = pod.get("status") or {}, timestamp(facts.wall)
    statuses = [_container_status(container, facts, old) for container in pod["spec"]["containers"]]
    phase = _phase(statuses, facts.is_over)
    status = {"startTime": now, **old, "phase": phase, "containerStatuses": statuses}
    if facts.has_sandbox:
        status |= {"hostIP": ADDRESS, "podIP": ADDRESS, "podIPs": [{"ip": ADDRESS}]}
    return _with_conditions(status, facts.has_sandbox, now)


def failed_status(pod: Object, reason: str, message: str, wall: float) -> Object:
    """The status of a pod that is refused: Failed, with the reason and a sentence."""
    status = {"startTime": timestamp(wall), **(pod.get("status") or {})}
    return {**status, "phase": "Failed", "reason": reason, "message": message}


def latest(containers: Sequence[Container], name: str) -> Container | None:
    """The last attempt at running the container of this name."""
    return max(_attempts(containers, name), key=lambda container: container.config.attempt, default=None)


def _attempts(containers: Sequence[Container], name: str) -> list[Container]:
    return [container for container in containers if container.config.name == name]


def _container_status(spec: Object, facts: PodFacts, old: Object) -> Object:
    name = spec["name"]
    found = latest(facts.containers, name)
    running = found is not None and found.state is ContainerState.RUNNING
    status: Object = {
        "name": name,
        "image": spec.get("image", ""),
        "imageID": "",
        "lastState": {},
        "ready": running,
        "started": running,
        "restartCount": found.config.attempt if found else _old_restarts(old, name),
        "state": _state(found, facts.waiting.get(name)),
    }
    if found is not None:
        status |= {"imageID": image_id(found.config.image), "containerID": _container_id(found)}
        status["lastState"] = _last_state(found, facts)
    if entries := facts.health.containers.get(name):
        status["allocatedResourcesStatus"] = [entry.to_json() for entry in entries]
    return status


def _old_restarts(old: Object, name: str) -> int:
    statuses = old.get("containerStatuses") or ()
    return next((int(status["restartCount"]) for status in statuses if status["name"] == name), 0)


def _state(found: Container | None, waiting: Waiting | None) -> Object:
    if found is not None and found.state is ContainerState.RUNNING:
        return {"running": {"startedAt": _time(found.started)}}
    if found is not None and found.state is ContainerState.EXITED and waiting is None:
        return _terminated(found)
    why = waiting or CREATING
    return {"waiting": {"reason": why.reason, **({"message": why.message} if why.message else {})}}


def _last_state(found: Container, facts: PodFacts) -> Object:
    """How the attempt before ended; or this one, if it exited and waits to be started again."""
    if found.state is ContainerState.EXITED and found.config.name in facts.waiting:
        return _terminated(found)
    earlier = [c for c in _attempts(facts.containers, found.config.name) if c.config.attempt < found.config.attempt]
    before = latest(earlier, found.config.name)
    return _terminated(before) if before is not None and before.state is ContainerState.EXITED else {}


def _terminated(container: Container) -> Object:
    return {
        "terminated": {
            "exitCode": container.exit_code,
            "reason": container.reason,
            "startedAt": _time(container.started),
            "finishedAt": _time(container.finished),
            "containerID": _container_id(container),
        }
    }


def _container_id(container: Container) -> str:
    return f"drahealth://{container.id}"


def _time(nanoseconds: int) -> str:
    return timestamp(nanoseconds / 1e9)


def _phase(statuses: Sequence[Object], is_over: bool) -> str:
    ended = [status["state"].get("terminated") or status["lastState"].get("terminated") for status in statuses]
    if is_over:
        return "Succeeded" if all(end is not None and end["exitCode"] == 0 for end in ended) else "Failed"
    begun = all("running" in status["state"] or end for status, end in zip(statuses, ended, strict=True))
    return "Running" if begun else "Pending"


def _with_conditions(status: Object, has_sandbox: bool, now: str) -> Object:
    completed = "PodCompleted" if status["phase"] == "Succeeded" else ""
    ready, reason, message = _readiness(status)
    status = with_condition(status, "PodReadyToStartContainers", has_sandbox, now=now)
    status = with_condition(status, "Initialized", True, now=now, reason=completed)
    for kind in ("Ready", "ContainersReady"):
        status = with_condition(status, kind, ready, now=now, reason=reason, message=message)
    return with_condition(status, "PodScheduled", True, now=now)


def _readiness(status: Object) -> tuple[bool, str, str]:
    if status["phase"] in ("Succeeded", "Failed"):
        return False, {"Succeeded": "PodCompleted", "Failed": "PodFailed"}[status["phase"]], ""
    unready = " ".join(container["name"] for container in status["containerStatuses"] if not container["ready"])
    if unready:
        return False, "ContainersNotReady", f"containers with unready status: [{unready}]"
    return True, "", ""
