"""What `drahealth check` and fault adapters do to a driver, and what is seen in processes, files and objects."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

CHECK = "check"

Outcome = Literal["done", "not applicable", "incomplete", "error"]
"""How an experiment ended. `not applicable`: not for this driver. `incomplete`: the driver or the deadline ended it.
`error`: drahealth failed."""


@dataclass(frozen=True, slots=True)
class ExperimentStarted:
    """An experiment started."""

    event: ClassVar[str] = "experiment-started"
    emitters: ClassVar[tuple[str, ...]] = (CHECK,)

    process: str
    """Label of the driver process, such as main."""


@dataclass(frozen=True, slots=True)
class ExperimentEnded:
    """An experiment ended."""

    event: ClassVar[str] = "experiment-ended"
    emitters: ClassVar[tuple[str, ...]] = (CHECK,)

    outcome: Outcome
    reason: str = ""
    """Why the outcome is not `done`; empty for `done`."""


@dataclass(frozen=True, slots=True)
class ProcessStarted:
    """drahealth started a process of the driver."""

    event: ClassVar[str] = "process-started"
    emitters: ClassVar[tuple[str, ...]] = (CHECK,)

    process: str
    pid: int
    command: tuple[str, ...]
    """The command line."""


@dataclass(frozen=True, slots=True)
class SignalSent:
    """drahealth sent a signal to a process of the driver."""

    event: ClassVar[str] = "signal-sent"
    emitters: ClassVar[tuple[str, ...]] = (CHECK,)

    process: str
    signal: str
    """Name of the signal, such as SIGTERM."""


@dataclass(frozen=True, slots=True)
class ProcessExited:
    """A process of the driver ended."""

    event: ClassVar[str] = "process-exited"
    emitters: ClassVar[tuple[str, ...]] = (CHECK,)

    process: str
    pid: int
    exit_code: int
    """Exit code of the process. If a signal ended the process: the negative number of the signal."""
    children: int
    """Number of child processes that still ran when the process ended."""
    output: tuple[str, ...]
    """The first and the last lines that the process printed."""


@dataclass(frozen=True, slots=True)
class ChildrenEnded:
    """A process of the driver ended after a SIGTERM. Then its child processes ended, or drahealth killed them."""

    event: ClassVar[str] = "children-ended"
    emitters: ClassVar[tuple[str, ...]] = (CHECK,)

    process: str
    pid: int
    """Process ID of the driver."""
    killed: int
    """Number of child processes that still ran 10 s after the end of the driver; drahealth killed them."""


@dataclass(frozen=True, slots=True)
class OutputMeasured:
    """At the end of an experiment, drahealth measured how much output a process of the driver has written."""

    event: ClassVar[str] = "output-measured"
    emitters: ClassVar[tuple[str, ...]] = (CHECK,)

    process: str
    pid: int
    size: int
    """Bytes since the start of the process, in standard output and standard error."""
    seconds: float
    """Seconds since the start of the process."""


@dataclass(frozen=True, slots=True)
class SocketsListed:
    """drahealth listed the paths of all sockets of a driver process."""

    event: ClassVar[str] = "sockets-listed"
    emitters: ClassVar[tuple[str, ...]] = (CHECK,)

    process: str
    moment: Literal["registered", "ended"]
    registry: tuple[str, ...]
    """Sockets in the registration directory."""
    plugins: tuple[str, ...]
    """Sockets in the plugin directory."""
    device_plugins: tuple[str, ...] = ()
    """Sockets of device plugins. The kubelet's own socket is in the same directory and is not listed."""


@dataclass(frozen=True, slots=True)
class SocketRemoved:
    """`drahealth check` removed the socket of a device plugin."""

    event: ClassVar[str] = "socket-removed"
    emitters: ClassVar[tuple[str, ...]] = (CHECK,)

    process: str
    path: str
    """Path of the socket."""
    resource: str = ""
    """Extended resource of the device plugin."""


@dataclass(frozen=True, slots=True)
class KubeletSwitched:
    """The kubelet of a device plugin started or stopped.

    When the kubelet starts, it removes the sockets of all device plugins.
    """

    event: ClassVar[str] = "kubelet-switched"
    emitters: ClassVar[tuple[str, ...]] = (CHECK,)

    process: str
    running: bool
    """Whether the kubelet runs now."""


@dataclass(frozen=True, slots=True)
class SlicesListed:
    """drahealth listed all ResourceSlices of the API server, as v1 objects."""

    event: ClassVar[str] = "slices-listed"
    emitters: ClassVar[tuple[str, ...]] = (CHECK,)

    slices: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class SliceChanged:
    """The driver changed a ResourceSlice, or `drahealth check` deleted one."""

    event: ClassVar[str] = "slice-changed"
    emitters: ClassVar[tuple[str, ...]] = (CHECK,)

    change: Literal["ADDED", "MODIFIED", "DELETED"]
    """What happened to the ResourceSlice: ADDED, MODIFIED or DELETED."""
    slice: dict[str, Any]
    by: Literal["driver", "check"] = "driver"


@dataclass(frozen=True, slots=True)
class ClaimAllocated:
    """drahealth created and allocated a ResourceClaim."""

    event: ClassVar[str] = "claim-allocated"
    emitters: ClassVar[tuple[str, ...]] = (CHECK,)

    claim_uid: str
    name: str
    namespace: str
    """Namespace of the ResourceClaim."""
    results: tuple[dict[str, Any], ...]
    """`status.allocation.devices.results` of the claim."""


@dataclass(frozen=True, slots=True)
class CdiSpec:
    """A file in the CDI directory."""

    file: str
    problem: str
    """Why the file is invalid; empty for a valid CDI spec."""
    devices: tuple[str, ...]
    """The fully qualified names of the devices in the file, such as vendor.com/gpu=gpu-0."""


@dataclass(frozen=True, slots=True)
class CdiSpecsRead:
    """drahealth read the files of the CDI directory."""

    event: ClassVar[str] = "cdi-specs-read"
    emitters: ClassVar[tuple[str, ...]] = (CHECK,)

    specs: tuple[CdiSpec, ...]


@dataclass(frozen=True, slots=True)
class PodRequested:
    """drahealth created a Pod that uses the driver or device plugin, or requested the deletion of the Pod."""

    event: ClassVar[str] = "pod-requested"
    emitters: ClassVar[tuple[str, ...]] = (CHECK,)

    change: Literal["created", "deleted"]
    """`created`, or `deleted` if the deletion was requested."""
    pod: str
    uid: str
    claims: tuple[str, ...]
    """UIDs of the claims of the Pod; empty for a device plugin."""
    profile: str
    """Profile of the kubelet that runs the Pod, such as kep or v1.37."""


@dataclass(frozen=True, slots=True)
class PreparedClaim:
    """A claim that a real kubelet has prepared."""

    claim_uid: str
    driver: str
    devices: tuple[dict[str, Any], ...]
    """As in the answer of NodePrepareResources: `pool_name`, `device_name`, `request_names`, `cdi_device_ids`."""


@dataclass(frozen=True, slots=True)
class PreparedClaimsRead:
    """drahealth read the prepared claims from the checkpoint of a real kubelet, because it cannot record the
    calls of that kubelet.
    """

    event: ClassVar[str] = "prepared-claims-read"
    emitters: ClassVar[tuple[str, ...]] = (CHECK,)

    claims: tuple[PreparedClaim, ...]
    """Each with claim_uid, driver, and `devices` as in the answer of NodePrepareResources."""


@dataclass(frozen=True, slots=True)
class ApiServerSwitched:
    """The API server of a driver process became reachable or unreachable."""

    event: ClassVar[str] = "api-server-switched"
    emitters: ClassVar[tuple[str, ...]] = (CHECK,)

    process: str
    reachable: bool


@dataclass(frozen=True, slots=True)
class ClaimReadHeld:
    """The API server started to delay the driver's reads of a claim, or ended this delay.

    The delay makes a prepare call longer.
    """

    event: ClassVar[str] = "claim-read-held"
    emitters: ClassVar[tuple[str, ...]] = (CHECK,)

    claim_uid: str
    held: bool
    """true if the API server now delays its answer, false if the delay has ended."""


ActionOutcome = Literal["done", "failed", "timed out", "interrupted"]
"""How an action of a fault adapter ended."""


@dataclass(frozen=True, slots=True)
class FaultInjected:
    """A fault adapter broke a device, or did the action `change` of the fault while the device was broken.

    The time of the event is the end of the action.
    """

    event: ClassVar[str] = "fault-injected"
    emitters: ClassVar[tuple[str, ...]] = (CHECK,)

    process: str
    fault: str
    """Name of the fault in the driver profile."""
    step: Literal["break", "change"]
    """`break`: the device breaks. `change`: it stays broken, and the driver must report another message or health."""
    pool: str
    device: str
    """Name of the device in its pool."""
    action: str
    """What the adapter did, such as `write {driver_dir}/health`."""
    grade: Literal["asked", "forced"]
    """Whether the adapter asked the driver to report a fault, or caused a fault outside the driver."""
    health: str
    """What the driver must report, such as Unhealthy."""
    settle: float
    """Seconds within which the driver must report this health."""
    outcome: ActionOutcome
    """How the action ended: done, failed, timed out, or interrupted with the experiment."""
    seconds: float
    """Duration of the action."""
    problem: str = ""
    """Why the outcome is not `done`; empty for `done`."""
    on_error: Literal["NOT_TESTED", "FAIL"] = "NOT_TESTED"
    """NOT_TESTED or FAIL. If the action fails, the checks that judge this action have this verdict."""
    on_no_effect: Literal["NOT_TESTED", "FAIL"] = "FAIL"
    """NOT_TESTED or FAIL. If the driver does not report this health, the checks that judge this action have this
    verdict."""
    shows: tuple[str, ...] = ()
    """The healths that the driver may report from then on, such as those of two faults; empty if `health` says it."""
    taint: str = ""
    """The taint that the driver must publish for the device while the fault lasts, as KEY:EFFECT or KEY=VALUE:EFFECT.
    Empty for none."""
    message: str = ""
    """Text that the driver's message for the device must have while the fault lasts; empty for any message."""


@dataclass(frozen=True, slots=True)
class FaultCleared:
    """A fault adapter cleared the fault of a device. The time of the event is the end of the action."""

    event: ClassVar[str] = "fault-cleared"
    emitters: ClassVar[tuple[str, ...]] = (CHECK,)

    process: str
    fault: str
    pool: str
    device: str
    """Name of the device in its pool."""
    action: str
    """What the adapter did; `restart` if the driver was started again."""
    settle: float
    """Seconds within which the driver must report the device as healthy."""
    outcome: ActionOutcome
    """How the action ended: done, failed, timed out, or interrupted with the experiment."""
    seconds: float
    problem: str = ""
    """Why the outcome is not `done`; empty for `done`."""
    on_error: Literal["NOT_TESTED", "FAIL"] = "NOT_TESTED"
    shows: tuple[str, ...] = ()
    """The healths that the driver may report from then on, if another fault of the device lasts; empty for Healthy."""


@dataclass(frozen=True, slots=True)
class FaultStage:
    """A stage of a plan of faults begins: actions on several devices, side by side, at one moment."""

    event: ClassVar[str] = "fault-stage"
    emitters: ClassVar[tuple[str, ...]] = (CHECK,)

    process: str
    moment: str
    """What happens to the driver meanwhile, such as `prepare` (docs/reference/driver-requirements.md)."""
    devices: tuple[str, ...]
    """The devices with an action, as POOL/NAME."""
    changes: tuple[str, ...]
    """The change of health that each of these devices is in, such as `recover`."""
    health_apis: tuple[str, ...]
    """The health APIs that are watched; empty for a device plugin."""
    subscribers: tuple[str, ...]
    """When the streams are opened, such as `before` and `after`."""


@dataclass(frozen=True, slots=True)
class FaultGap:
    """A part of the space of faults that a plan of faults could not cause."""

    event: ClassVar[str] = "fault-gap"
    emitters: ClassVar[tuple[str, ...]] = (CHECK,)

    process: str
    dimension: str
    """Such as `moment`."""
    value: str
    """The value of the dimension, such as `prepare`."""
    reason: str
    """Why the driver profile or the driver could not cause it."""


@dataclass(frozen=True, slots=True)
class BackendSwitched:
    """drahealth killed a scripted backend of a driver, or started it again."""

    event: ClassVar[str] = "backend-switched"
    emitters: ClassVar[tuple[str, ...]] = (CHECK,)

    process: str
    script: str
    """File name of the scripted backend."""
    running: bool
    """Whether the backend runs now."""
