"""The containers of a pod that are due to start, and whether the pod has ended, as a kubelet decides it. Pure.

Source: the Pod API, "Init Containers", "Sidecar Containers", and the restart rules of regular containers. Init
containers run one after the other. An init container with restart policy Always, a sidecar, is started in its turn and
kept running. The decision needs only the existing containers; nothing is stored between two decisions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.cluster.containers.runtime import Container, ContainerState


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
        due, is_initialized = _initialization(initial, containers)
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


def _initialization(specs: Sequence[Object], containers: Sequence[Container]) -> tuple[list[Object], bool]:
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
