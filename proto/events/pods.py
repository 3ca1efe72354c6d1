"""What clients of the API see of pods, and what a scenario or a timeline does to the node."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from drahealth.proto.events.checks import CHECK
from drahealth.proto.values import ResourceStatus

SCENARIO = "scenario"
PROGRAM = "manager"


@dataclass(frozen=True, slots=True)
class ContainerSeen:
    """One container of a seen status. `state`: running, terminated, or the reason it waits for."""

    name: str
    state: str
    restarts: int
    resources: tuple[ResourceStatus, ...] | None
    """None: the field was not there."""


@dataclass(frozen=True, slots=True)
class StatusSeen:
    """A client of the API saw a Pod status."""

    event: ClassVar[str] = "status-seen"
    emitters: ClassVar[tuple[str, ...]] = (SCENARIO, PROGRAM, CHECK)

    pod: str
    uid: str
    phase: str
    containers: tuple[ContainerSeen, ...]
    """Each with name, state, restarts, and `resources`: allocatedResourcesStatus, null if the field is missing."""
    init_containers: tuple[ContainerSeen, ...] = ()
    """Init containers, with the same keys as `containers`."""
    resources: tuple[ResourceStatus, ...] | None = None
    """allocatedResourcesStatus of the pod itself, for claims that no container uses; null if the field is missing."""
    namespace: str = ""
    """Namespace of the pod; empty in a scenario, because a scenario has only one namespace."""
    unknown_keys: tuple[str, ...] = ()
    """Paths of keys in an allocatedResourcesStatus that the KEP does not have."""
    pending: str = ""
    """Why a Pending Pod waits: the message of the scheduler, or of a container's waiting state."""

    @property
    def all_containers(self) -> tuple[ContainerSeen, ...]:
        """Init containers, then the others."""
        return (*self.init_containers, *self.containers)

    def entries(self) -> Iterator[tuple[str, tuple[ResourceStatus, ...]]]:
        """Each `allocatedResourcesStatus` with the name of its container, "" for the pod's own; () where it is not."""
        for container in self.all_containers:
            yield container.name, container.resources or ()
        yield "", self.resources or ()


@dataclass(frozen=True, slots=True)
class StatusWritten:
    """A client asked the API server to write a Pod status."""

    event: ClassVar[str] = "status-written"
    emitters: ClassVar[tuple[str, ...]] = (SCENARIO,)

    pod: str
    uid: str
    changed: bool
    """Whether the status differed from the one that clients read before."""
    error: str = ""
    """Why the API server rejected the status; empty if it accepted the status."""


@dataclass(frozen=True, slots=True)
class ContainerRun:
    """The last run of a container, as a Pod status shows it."""

    name: str
    kind: Literal["init", "sidecar", "regular"]
    state: Literal["waiting", "running", "terminated"]
    id: str
    """containerID of the run; empty before the first one."""
    restarts: int
    ready: bool
    started: bool
    exit_code: int | None = None
    """Null unless the run has terminated."""
    previous: str = ""
    """containerID of the run before; empty if there is none."""
    reason: str = ""
    """Why the container waits."""


@dataclass(frozen=True, slots=True)
class PodStateSeen:
    """A client of the API saw a Pod with a new phase, address, conditions, reasons, messages or runs of containers.

    Health must not change these.

    It is not emitted for Pods with probes or readiness gates.
    """

    event: ClassVar[str] = "pod-state-seen"
    emitters: ClassVar[tuple[str, ...]] = (SCENARIO,)

    pod: str
    uid: str
    phase: str
    conditions: tuple[tuple[str, str], ...]
    """Type and status of each condition."""
    runs: tuple[ContainerRun, ...]
    """The last run of each container, with name, kind (init, sidecar, regular), state, id, restarts, ready, started,
    exit_code, the id of the previous run, and why the container waits."""
    has_address: bool
    """Whether the status has a podIP."""
    is_deleting: bool = False
    """Whether the Pod has a deletionTimestamp."""
    texts: tuple[tuple[str, str], ...] = ()
    """Reasons and messages of the Pod (with an empty type) and of the conditions PodReadyToStartContainers,
    Initialized, Ready and ContainersReady, each with the condition's type."""


@dataclass(frozen=True, slots=True)
class PodRewritten:
    """A client of the API saw a new version of a Pod in which only times had changed."""

    event: ClassVar[str] = "pod-rewritten"
    emitters: ClassVar[tuple[str, ...]] = (SCENARIO,)

    pod: str
    uid: str


@dataclass(frozen=True, slots=True)
class HeldDevice:
    """A device of a claim, and one of its users."""

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
    """The devices that a Pod holds: those allocated to its claims, and the requested devices of device plugins."""

    event: ClassVar[str] = "devices-held"
    emitters: ClassVar[tuple[str, ...]] = (SCENARIO,)

    pod: str
    uid: str
    devices: tuple[HeldDevice, ...]
    """Devices of claims, each with its container (empty if no container uses the claim), claim and request."""
    resources: tuple[HeldResource, ...]
    """Extended resources, each with its container and count."""


@dataclass(frozen=True, slots=True)
class PodDeleted:
    """A pod was deleted from the API."""

    event: ClassVar[str] = "pod-deleted"
    emitters: ClassVar[tuple[str, ...]] = (PROGRAM, CHECK)

    pod: str
    uid: str
    namespace: str


@dataclass(frozen=True, slots=True)
class EventSeen:
    """A client of the API saw an Event (core/v1) on a pod, or a higher count of this Event."""

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
    """A feature gate was enabled or disabled, by a restart of the API server and the kubelet."""

    event: ClassVar[str] = "gate-set"
    emitters: ClassVar[tuple[str, ...]] = (SCENARIO,)

    gate: str
    on: bool
    """Whether the gate is enabled in the API server and in the kubelet."""
    api_server: bool | None = None
    """Whether it is enabled in the API server; null if unknown."""
    kubelet: bool | None = None
    """Whether it is enabled in the kubelet; null if unknown."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """A component was stopped or killed."""

    event: ClassVar[str] = "component-stopped"
    emitters: ClassVar[tuple[str, ...]] = (SCENARIO,)

    component: str
    """Name of the component."""


@dataclass(frozen=True, slots=True)
class Restarted:
    """A component was restarted by the scenario, or started again after it had ended by itself."""

    event: ClassVar[str] = "restarted"
    emitters: ClassVar[tuple[str, ...]] = (SCENARIO,)

    component: str


@dataclass(frozen=True, slots=True)
class TimePassed:
    """The node's clock jumped forward. The times `at` of a history do not include such jumps."""

    event: ClassVar[str] = "time-passed"
    emitters: ClassVar[tuple[str, ...]] = (SCENARIO,)

    seconds: float
    """Length of the jump."""


@dataclass(frozen=True, slots=True)
class TimeSkipped:
    """A timeline skipped the rest of a wait, because nothing except heartbeats had happened since the wait began.

    Unlike `time-passed`, this does not move the clock of the node.
    """

    event: ClassVar[str] = "time-skipped"
    emitters: ClassVar[tuple[str, ...]] = (SCENARIO,)

    seconds: float
    """Length of the skipped time."""


@dataclass(frozen=True, slots=True)
class Step:
    """A scenario logged an action or an observation."""

    event: ClassVar[str] = "step"
    emitters: ClassVar[tuple[str, ...]] = (SCENARIO,)

    text: str
