"""Events of long-running commands about themselves, and of a timeline that runs on a driver."""

from dataclasses import dataclass
from typing import Any, ClassVar

SERVE = "driver serve"
MANAGER = "manager"


@dataclass(frozen=True, slots=True)
class DriverStarted:
    """A driver or device plugin of the inventory has started."""

    event: ClassVar[str] = "driver-started"
    emitters: ClassVar[tuple[str, ...]] = (SERVE,)

    driver: str
    node: str
    devices: int
    """Number of devices of the driver."""


@dataclass(frozen=True, slots=True)
class DriverServed:
    """The control socket accepts commands for the driver."""

    event: ClassVar[str] = "serving"
    emitters: ClassVar[tuple[str, ...]] = (SERVE,)

    driver: str
    socket: str
    """Path of the control socket."""
    metrics: str = ""
    """URL of the metrics; empty if they are off."""


@dataclass(frozen=True, slots=True)
class DriverEnding:
    """The process of the driver is about to end."""

    event: ClassVar[str] = "ending"
    emitters: ClassVar[tuple[str, ...]] = (SERVE,)

    driver: str


@dataclass(frozen=True, slots=True)
class DriverRetired:
    """`drahealth driver serve` has stopped the driver or device plugin permanently.

    A driver also deletes its ResourceSlices. If it could not delete them, the log has a warning.
    """

    event: ClassVar[str] = "driver-retired"
    emitters: ClassVar[tuple[str, ...]] = (SERVE,)

    driver: str


@dataclass(frozen=True, slots=True)
class CommandDone:
    """A client of the control socket, such as `drahealth ctl`, ran a command that changes something."""

    event: ClassVar[str] = "command"
    emitters: ClassVar[tuple[str, ...]] = (SERVE,)

    driver: str
    command: str
    args: dict[str, Any]
    """Arguments by name. Long values are shortened."""


@dataclass(frozen=True, slots=True)
class ManagerStarted:
    """The manager has started and accepts registrations."""

    event: ClassVar[str] = "started"
    emitters: ClassVar[tuple[str, ...]] = (MANAGER,)

    root_dir: str
    """Root directory of the kubelet."""
    plugins_registry: str
    """Directory where plugins put their registration sockets."""
    kubeconfig: str
    """File with the address of the API server, and a token for the API server."""
    pods: str
    """Directory of the Pod manifests."""
    node: str
    profile: str
    """Profile of the manager, such as kep or v1.37."""
    metrics: str | None
    """URL of the metrics; null if they are off."""


@dataclass(frozen=True, slots=True)
class ManagerStopped:
    """The manager has stopped after SIGTERM or Ctrl-C."""

    event: ClassVar[str] = "stopped"
    emitters: ClassVar[tuple[str, ...]] = (MANAGER,)


@dataclass(frozen=True, slots=True)
class ManifestRejected:
    """A Pod manifest is invalid. The manager continues with the previous content of the file."""

    event: ClassVar[str] = "manifest-rejected"
    emitters: ClassVar[tuple[str, ...]] = (MANAGER,)

    file: str
    line: int
    """Line number, where the first line is 1; 0 if unknown."""
    problem: str


@dataclass(frozen=True, slots=True)
class TimelineStarted:
    """A timeline begins."""

    event: ClassVar[str] = "timeline-started"
    emitters: ClassVar[tuple[str, ...]] = (SERVE,)

    driver: str
    timeline: str
    """Name of the timeline."""
    seed: int
    plan: str
    """Hash of the plan. The same timeline, devices and seed give the same hash."""


@dataclass(frozen=True, slots=True)
class TimelineEnded:
    """A timeline has ended."""

    event: ClassVar[str] = "timeline-ended"
    emitters: ClassVar[tuple[str, ...]] = (SERVE,)

    driver: str
    timeline: str
    """Name of the timeline."""
    seed: int
    plan: str
    """Hash of the plan."""


@dataclass(frozen=True, slots=True)
class StepStarted:
    """A step of a timeline is due."""

    event: ClassVar[str] = "step-started"
    emitters: ClassVar[tuple[str, ...]] = (SERVE,)

    driver: str
    step: str
    due: float
    """Planned time of the step, in seconds since the beginning of the timeline."""
    do: str
    """Kind of the step, such as inject or expect."""
    what: Any = None
    """Arguments of the step."""
    device: str = ""
    when: dict[str, Any] | None = None
    """Condition that the step waits for; null if there is none."""


@dataclass(frozen=True, slots=True)
class StepDone:
    """A step of a timeline has a result, such as the faults that a recovery action does not clear."""

    event: ClassVar[str] = "step-done"
    emitters: ClassVar[tuple[str, ...]] = (SERVE,)

    driver: str
    step: str
    result: str


@dataclass(frozen=True, slots=True)
class StepFailed:
    """A step of a timeline failed. The timeline continues."""

    event: ClassVar[str] = "step-failed"
    emitters: ClassVar[tuple[str, ...]] = (SERVE,)

    driver: str
    step: str
    where: str
    why: str


@dataclass(frozen=True, slots=True)
class ExpectationMet:
    """Pods show the expected status of a step."""

    event: ClassVar[str] = "expectation-met"
    emitters: ClassVar[tuple[str, ...]] = (SERVE,)

    driver: str
    step: str
    device: str
    expected: str
    note: str = ""
    """Why this shows little: no newer status than that of before an earlier step met the expectation."""


@dataclass(frozen=True, slots=True)
class ExpectationFailed:
    """Pods did not show the expected status in time, or the status changed during the time `holds` of the step."""

    event: ClassVar[str] = "expectation-failed"
    emitters: ClassVar[tuple[str, ...]] = (SERVE,)

    driver: str
    step: str
    where: str
    device: str
    expected: str
    why: str
