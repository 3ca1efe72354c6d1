"""The status of a pod as a kubelet builds it, the containers that are due to start, and events of device health."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from drahealth.fakes.cluster.api import Object, timestamp
from drahealth.fakes.cluster.api_server.pod_statuses import FIELD, STATUS_LISTS
from drahealth.fakes.cluster.pods import with_condition
from drahealth.fakes.cluster.runtime import ADDRESS, Container, ContainerState, image_id
from drahealth.proto.values import AllocatedResources, Health

# The containers of a pod that are due to start, and whether the pod has ended, as a kubelet decides it. Pure.
#
# Source: the Pod API, "Init Containers", "Sidecar Containers", and the restart rules of regular containers. Init
# containers run one after the other. An init container with restart policy Always, a sidecar, is started in its turn
# and kept running. The decision needs only the existing containers; nothing is stored between two decisions.


@dataclass(frozen=True, slots=True)
class Plan:
    """`due` are the specs of containers that must run and do not; an exited one waits for its backoff."""

    due: tuple[Object, ...] = ()
    is_over: bool = False
    """No container will be started again; sidecars may still run."""


def plan(spec: Object, containers: Sequence[Container]) -> Plan:
    """The plan for a pod with this spec that is not being deleted."""
    initial = spec.get("initContainers") or ()
    regular = [(one, latest(containers, one["name"])) for one in spec["containers"]]
    if all(found is not None and _stays_down(found, one, spec) for one, found in regular):
        return Plan(is_over=True)
    if any(found is not None for _, found in regular):
        sidecars = [one for one in initial if is_sidecar(one)]
        due = [one for one in sidecars if _is_down(latest(containers, one["name"]))]
    elif any(_has_failed_for_good(one, latest(containers, one["name"]), spec) for one in initial):
        return Plan(is_over=True)
    else:
        due, is_initialized = _due_init_containers(initial, containers)
        if not is_initialized:
            return Plan(tuple(due))
    return Plan((*due, *(one for one, found in regular if found is None or _is_to_restart(found, one, spec))))


def is_sidecar(spec: Object) -> bool:
    """Whether an init container is a sidecar ("restartable" in the API)."""
    return bool(spec.get("restartPolicy") == "Always")


def latest(containers: Sequence[Container], name: str) -> Container | None:
    """The last run of the container with this name."""
    return max(attempts(containers, name), key=lambda container: container.config.attempt, default=None)


def attempts(containers: Sequence[Container], name: str) -> list[Container]:
    """All runs of the container with this name."""
    return [container for container in containers if container.config.name == name]


def in_order_of_stopping(spec: Object, running: Sequence[Container]) -> Iterator[Container]:
    """Sidecars stop after all others, the last started first."""
    order = [one["name"] for one in reversed(spec.get("initContainers") or ())]
    yield from sorted(running, key=lambda c: order.index(c.config.name) + 1 if c.config.name in order else 0)


def _due_init_containers(specs: Sequence[Object], containers: Sequence[Container]) -> tuple[list[Object], bool]:
    """The init containers that are due, and whether regular containers can start."""
    due: list[Object] = []
    is_next = True
    for spec in specs:
        found = latest(containers, spec["name"])
        if found is None:
            return ([*due, spec] if is_next else due), False
        is_next = _lets_the_next_begin(spec, found)
        if not is_next and _is_down(found):
            due.append(spec)
    return due, is_next


def _lets_the_next_begin(spec: Object, found: Container) -> bool:
    if is_sidecar(spec):
        return found.state is ContainerState.RUNNING
    return found.state is ContainerState.EXITED and found.exit_code == 0


def _has_failed_for_good(spec: Object, found: Container | None, pod: Object) -> bool:
    failed = found is not None and _is_down(found) and found.exit_code != 0
    return failed and not is_sidecar(spec) and pod.get("restartPolicy") == "Never"


def _is_down(found: Container | None) -> bool:
    return found is not None and found.state is ContainerState.EXITED


def _is_to_restart(found: Container, spec: Object, pod: Object) -> bool:
    return _is_down(found) and not _stays_down(found, spec, pod)


def _stays_down(found: Container, spec: Object, pod: Object) -> bool:
    policy = spec.get("restartPolicy") or pod.get("restartPolicy", "Always")
    restarts = policy == "Always" or (policy == "OnFailure" and found.exit_code != 0)
    has_rule = any(_applies(rule, found.exit_code) for rule in spec.get("restartPolicyRules") or ())
    return found.state is ContainerState.EXITED and not restarts and not has_rule


def _applies(rule: Object, code: int | None) -> bool:
    """Whether the rule restarts a container with this exit code."""
    codes = rule["exitCodes"]
    return bool((code in codes["values"]) is (codes["operator"] == "In"))


# The status of a pod as a kubelet builds it, each time from the state of the runtime. Pure.
#
# Source: the Pod API, core/v1 `PodStatus`, and the rules of kubelets for phase and conditions. Fields of other owners
# (claim statuses, foreign conditions) are kept.


@dataclass(frozen=True, slots=True)
class Waiting:
    """The reason why a due container does not run."""

    reason: str
    message: str = ""


CREATING = Waiting("ContainerCreating")
INITIALIZING = Waiting("PodInitializing")
"""The reason in kubelets for every container of a pod with init containers."""


@dataclass(frozen=True, slots=True)
class PodFacts:
    """The inputs of a status, besides the pod.

    `health` has every `allocatedResourcesStatus`; empty ones are omitted. `is_over`: no container runs or will run
    again, and the devices are released; only then the phase is terminal.
    """

    containers: Sequence[Container]
    waiting: Mapping[str, Waiting]
    health: AllocatedResources
    has_sandbox: bool
    is_over: bool
    wall: float


def pod_status(pod: Object, facts: PodFacts) -> Object:
    """The pod's complete status, based on its current one."""
    spec, now = pod["spec"], timestamp(facts.wall)
    old = {key: value for key, value in (pod.get("status") or {}).items() if key != FIELD}
    initial = [_init_status(one, _container_status(one, pod, facts)) for one in spec.get("initContainers") or ()]
    regular = [_container_status(one, pod, facts) for one in spec["containers"]]
    status = {"startTime": now, **old, "phase": _phase(regular, facts.is_over), "containerStatuses": regular}
    status["observedGeneration"] = pod["metadata"].get("generation", 1)
    if initial:
        status["initContainerStatuses"] = initial
    if facts.health.pod:
        status[FIELD] = [entry.to_json() for entry in facts.health.pod]
    if facts.has_sandbox:
        status |= {"hostIP": ADDRESS, "podIP": ADDRESS, "podIPs": [{"ip": ADDRESS}]}
    return _with_conditions(status, spec, facts.has_sandbox, now)


def failed_status(pod: Object, reason: str, message: str, wall: float) -> Object:
    """The status of a rejected pod: Failed, with the reason and a message."""
    status = {"startTime": timestamp(wall), **(pod.get("status") or {})}
    return {**status, "phase": "Failed", "reason": reason, "message": message}


def _container_status(spec: Object, pod: Object, facts: PodFacts) -> Object:
    name = spec["name"]
    found = latest(facts.containers, name)
    running = found is not None and found.state is ContainerState.RUNNING
    default = INITIALIZING if pod["spec"].get("initContainers") else CREATING
    status: Object = {
        "name": name,
        "image": spec.get("image", ""),
        "imageID": "",
        "lastState": {},
        "ready": running,
        "started": running,
        "restartCount": found.config.attempt if found else _old_restarts(pod.get("status") or {}, name),
        "state": _state(found, facts.waiting.get(name, default), name in facts.waiting),
    }
    if found is not None:
        status |= {"imageID": image_id(found.config.image), "containerID": _container_id(found)}
        status["lastState"] = _last_state(found, facts)
    if entries := facts.health.containers.get(name):
        status[FIELD] = [entry.to_json() for entry in entries]
    return status


def _init_status(spec: Object, status: Object) -> Object:
    """An init container is ready when it has ended, and never counts as started; sidecars are like regular
    containers.
    """
    if is_sidecar(spec):
        return status
    end = status["state"].get("terminated")
    return {**status, "ready": end is not None and end["exitCode"] == 0, "started": False}


def _old_restarts(old: Object, name: str) -> int:
    statuses = [*(old.get("containerStatuses") or ()), *(old.get("initContainerStatuses") or ())]
    return next((int(status["restartCount"]) for status in statuses if status["name"] == name), 0)


def _state(found: Container | None, waiting: Waiting, waits: bool) -> Object:
    """`waits`: the container will be started again."""
    if found is not None and found.state is ContainerState.RUNNING:
        return {"running": {"startedAt": _time(found.started)}}
    if found is not None and found.state is ContainerState.EXITED and not waits:
        return _terminated(found)
    return {"waiting": {"reason": waiting.reason, **({"message": waiting.message} if waiting.message else {})}}


def _last_state(found: Container, facts: PodFacts) -> Object:
    """The end of the previous run; or of this one, if it exited and waits for a restart."""
    if found.state is ContainerState.EXITED and found.config.name in facts.waiting:
        return _terminated(found)
    earlier = [c for c in attempts(facts.containers, found.config.name) if c.config.attempt < found.config.attempt]
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


def _with_conditions(status: Object, spec: Object, has_sandbox: bool, now: str) -> Object:
    initialized, why, missing = _initialization(status, spec)
    ready, reason, message = _readiness(status, spec)
    status = with_condition(status, "PodReadyToStartContainers", has_sandbox, now=now)
    status = with_condition(status, "Initialized", initialized, now=now, reason=why, message=missing)
    for kind in ("Ready", "ContainersReady"):
        status = with_condition(status, kind, ready, now=now, reason=reason, message=message)
    return with_condition(status, "PodScheduled", True, now=now)


def _initialization(status: Object, spec: Object) -> tuple[bool, str, str]:
    """A pod whose containers have started stays initialized, whatever happens to its sidecars."""
    if status["phase"] == "Succeeded":
        return True, "PodCompleted", ""
    pairs = zip(spec.get("initContainers") or (), status.get("initContainerStatuses") or (), strict=True)
    missing = [one["name"] for one, found in pairs if not found["started" if is_sidecar(one) else "ready"]]
    if not missing or any(_has_begun(one) for one in status["containerStatuses"]):
        return True, "", ""
    return False, "ContainersNotInitialized", f"containers with incomplete status: [{' '.join(missing)}]"


def _has_begun(status: Object) -> bool:
    return not status["state"].get("waiting") or bool(status["lastState"])


def _readiness(status: Object, spec: Object) -> tuple[bool, str, str]:
    if status["phase"] in ("Succeeded", "Failed"):
        return False, {"Succeeded": "PodCompleted", "Failed": "PodFailed"}[status["phase"]], ""
    sidecars = {one["name"] for one in spec.get("initContainers") or () if is_sidecar(one)}
    counted = [one for one in status.get("initContainerStatuses") or () if one["name"] in sidecars]
    unready = " ".join(one["name"] for one in (*counted, *status["containerStatuses"]) if not one["ready"])
    if unready:
        return False, "ContainersNotReady", f"containers with unready status: [{unready}]"
    return True, "", ""


# The events for a change of health in a pod's status. Pure.
#
# KEP-4680 asks for device health "in Pod Status and events" and specifies nothing else. Here an event is recorded when
# a status shows another health of a device than the previous status, and when the first status shows Unhealthy. A new
# message, a new timeout, a heartbeat, or a first Healthy or Unknown causes no event.


@dataclass(frozen=True, slots=True)
class PodEvent:
    """An event of a pod; `type`, `reason` and `message` as in the API."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class _Shown:
    entry: str
    health: str
    message: str


_Device = tuple[str, str]
"""Resource and id of a device. The resource is set only for device plugins, whose ids are unique per resource."""


def health_events(before: Object, after: Object) -> Iterator[PodEvent]:
    """The events for the change from one pod status to another, in the order of the later one."""
    old = dict(_shown(before))
    for device, shown in dict(_shown(after)).items():
        known = old.get(device)
        if shown.health != known.health if known else shown.health == Health.UNHEALTHY:
            yield _event(device[1], shown)


def _event(device: str, shown: _Shown) -> PodEvent:
    message = f"Device {device} of {shown.entry} is {shown.health}"
    return PodEvent(
        "Normal" if shown.health == Health.HEALTHY else "Warning",
        f"Device{shown.health}",
        f"{message}: {shown.message}" if shown.message else message,
    )


def _shown(status: Object) -> Iterator[tuple[_Device, _Shown]]:
    """Every device of a status; a device that occurs several times has the same health each time."""
    lists = [container.get(FIELD) or () for name in STATUS_LISTS for container in status.get(name) or ()]
    for entries in (*lists, status.get(FIELD) or ()):
        for entry in entries:
            resource = "" if entry["name"].startswith("claim:") else entry["name"]
            for found in entry.get("resources") or ():
                shown = _Shown(entry["name"], found.get("health", ""), found.get("message", ""))
                yield (resource, found["resourceID"]), shown
