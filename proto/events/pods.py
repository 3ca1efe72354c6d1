"""Pods as clients of the API server receive them, and actions of a scenario or a timeline on the node."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from drahealth.proto.events.checks import CHECK
from drahealth.proto.values import ResourceStatus

SCENARIO = "scenario"
PROGRAM = "manager"


@dataclass(frozen=True, slots=True)
class ContainerSeen:
    """One container of a Pod status. `state`: running, terminated, or the reason why the container waits."""

    name: str
    state: str
    restarts: int
    resources: tuple[ResourceStatus, ...] | None
    """None if the field is missing."""


@dataclass(frozen=True, slots=True)
class StatusSeen:
    """A client of the API server received a Pod status."""

    event: ClassVar[str] = "status-seen"
    emitters: ClassVar[tuple[str, ...]] = (SCENARIO, PROGRAM, CHECK)

    pod: str
    uid: str
    phase: str
    containers: tuple[ContainerSeen, ...]
    """Regular containers, each with `name`, `state`, `restarts` and `resources`. `resources` is
    allocatedResourcesStatus, or null if the field is missing."""
    init_containers: tuple[ContainerSeen, ...] = ()
    """Init containers, with the same keys as `containers`."""
    resources: tuple[ResourceStatus, ...] | None = None
    """The pod's own allocatedResourcesStatus, for claims that no container uses; null if the field is missing."""
    namespace: str = ""
    """Namespace of the pod; empty in a scenario, because a scenario has only one namespace."""
    unknown_keys: tuple[str, ...] = ()
    """Keys in allocatedResourcesStatus that the KEP does not define, each as a path."""
    pending: str = ""
    """Why a Pod in the phase Pending waits: the message of the scheduler, or of a waiting container."""

    @property
    def all_containers(self) -> tuple[ContainerSeen, ...]:
        """Init containers, then regular containers."""
        return (*self.init_containers, *self.containers)

    def entries(self) -> Iterator[tuple[str, tuple[ResourceStatus, ...]]]:
        """Each `allocatedResourcesStatus` with its container, "" for the pod's own; () if the field is missing."""
        for container in self.all_containers:
            yield container.name, container.resources or ()
        yield "", self.resources or ()


@dataclass(frozen=True, slots=True)
class StatusWritten:
    """A client sent a Pod status to the API server."""

    event: ClassVar[str] = "status-written"
    emitters: ClassVar[tuple[str, ...]] = (SCENARIO,)

    pod: str
    uid: str
    changed: bool
    """Whether the status differs from the previous status of the Pod in the API server."""
    error: str = ""
    """Why the API server rejected the status; empty if it accepted the status."""


@dataclass(frozen=True, slots=True)
class ContainerRun:
    """The last run of a container, as a Pod status shows it."""

    name: str
    kind: Literal["init", "sidecar", "regular"]
    state: Literal["waiting", "running", "terminated"]
    id: str
    """containerID of the run; empty before the first run."""
    restarts: int
    ready: bool
    started: bool
    exit_code: int | None = None
    """null if the run has not terminated."""
    previous: str = ""
    """containerID of the previous run; empty if there is none."""
    reason: str = ""
    """Why the container waits."""


@dataclass(frozen=True, slots=True)
class PodStateSeen:
    """A client of the API server received a Pod with a new phase, address, condition, reason, message or container run.

    The health of devices must not change these values. The event is not emitted for Pods with probes or readiness
    gates.
    """

    event: ClassVar[str] = "pod-state-seen"
    emitters: ClassVar[tuple[str, ...]] = (SCENARIO,)

    pod: str
    uid: str
    phase: str
    conditions: tuple[tuple[str, str], ...]
    """Type and status of each condition."""
    runs: tuple[ContainerRun, ...]
    """The last run of each container, with `name`, `kind` (init, sidecar or regular), `state`, `id`, `restarts`,
    `ready`, `started`, `exit_code`, `previous` and `reason`. `previous` is the id of the previous run. `reason` is the
    reason why the container waits."""
    has_address: bool
    """Whether the status has a podIP."""
    is_deleting: bool = False
    """Whether the Pod has a deletionTimestamp."""
    texts: tuple[tuple[str, str], ...] = ()
    """Reasons and messages of the Pod and of the conditions PodReadyToStartContainers, Initialized, Ready and
    ContainersReady. Each has the type of its condition. For the Pod itself, the type is empty."""


@dataclass(frozen=True, slots=True)
class PodRewritten:
    """A client of the API server received a new version of a Pod, in which only times had changed."""

    event: ClassVar[str] = "pod-rewritten"
    emitters: ClassVar[tuple[str, ...]] = (SCENARIO,)

    pod: str
    uid: str


@dataclass(frozen=True, slots=True)
class HeldDevice:
    """A device of a claim, and one container that uses the device."""

    container: str
    """Empty if no container uses the claim."""
    claim: str
    """Name of the claim in the Pod."""
    request: str
    driver: str
    pool: str
    device: str


@dataclass(frozen=True, slots=True)
class HeldResource:
    """An extended resource that a container requests."""

    container: str
    resource: str
    count: int


@dataclass(frozen=True, slots=True)
class DevicesHeld:
    """drahealth read which devices a Pod holds: devices of its claims, and the extended resources that it requests."""

    event: ClassVar[str] = "devices-held"
    emitters: ClassVar[tuple[str, ...]] = (SCENARIO,)

    pod: str
    uid: str
    devices: tuple[HeldDevice, ...]
    """Devices of claims, each with `container` (empty if no container uses the claim), `claim`, `request`, `driver`,
    `pool` and `device`."""
    resources: tuple[HeldResource, ...]
    """Extended resources, each with `container`, `resource` and `count`."""


@dataclass(frozen=True, slots=True)
class PodDeleted:
    """A pod was deleted from the API server."""

    event: ClassVar[str] = "pod-deleted"
    emitters: ClassVar[tuple[str, ...]] = (PROGRAM, CHECK)

    pod: str
    uid: str
    namespace: str


@dataclass(frozen=True, slots=True)
class EventSeen:
    """A client of the API server received an Event (core/v1) on a pod, or a higher count of the Event."""

    event: ClassVar[str] = "event-seen"
    emitters: ClassVar[tuple[str, ...]] = (SCENARIO, CHECK)

    pod: str
    uid: str
    type: str
    """Normal or Warning."""
    reason: str
    message: str
    count: int = 1
    """How often the Event has occurred."""


@dataclass(frozen=True, slots=True)
class GateSet:
    """A scenario set a feature gate. To do this, it restarted the API server and the kubelet."""

    event: ClassVar[str] = "gate-set"
    emitters: ClassVar[tuple[str, ...]] = (SCENARIO,)

    gate: str
    on: bool
    """true if the gate is enabled in both the API server and the kubelet."""
    api_server: bool | None = None
    """Whether the gate is enabled in the API server; null if unknown."""
    kubelet: bool | None = None
    """Whether the gate is enabled in the kubelet; null if unknown."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """A scenario stopped or killed a component."""

    event: ClassVar[str] = "component-stopped"
    emitters: ClassVar[tuple[str, ...]] = (SCENARIO,)

    component: str


@dataclass(frozen=True, slots=True)
class Restarted:
    """A scenario started a component again."""

    event: ClassVar[str] = "restarted"
    emitters: ClassVar[tuple[str, ...]] = (SCENARIO,)

    component: str


@dataclass(frozen=True, slots=True)
class TimePassed:
    """The node's clock jumped forward. The times `at` of a history do not include such jumps."""

    event: ClassVar[str] = "time-passed"
    emitters: ClassVar[tuple[str, ...]] = (SCENARIO,)

    seconds: float
    """Length of the jump, in seconds."""


@dataclass(frozen=True, slots=True)
class TimeSkipped:
    """A timeline skipped the rest of a wait, because only heartbeats had happened for two simulated minutes.

    Only the time of the timeline moves forward. The clock of the node does not move; with `time-passed` it does.
    """

    event: ClassVar[str] = "time-skipped"
    emitters: ClassVar[tuple[str, ...]] = (SCENARIO,)

    seconds: float
    """Length of the skipped time, in seconds."""


@dataclass(frozen=True, slots=True)
class Step:
    """A scenario logged an action or an observation."""

    event: ClassVar[str] = "step"
    emitters: ClassVar[tuple[str, ...]] = (SCENARIO,)

    text: str
