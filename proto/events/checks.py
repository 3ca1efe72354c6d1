"""What `drahealth check` does to a driver, and what it finds outside of gRPC: processes, files and objects."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

CHECK = "check"

Outcome = Literal["done", "not applicable", "incomplete", "error"]
"""How an experiment ended: `not applicable` for this driver, `incomplete` because the driver or the deadline ended it,
`error` of the harness."""


@dataclass(frozen=True, slots=True)
class ExperimentStarted:
    """An experiment started."""

    event: ClassVar[str] = "experiment-started"
    emitters: ClassVar[tuple[str, ...]] = (CHECK,)

    process: str
    """Label of the driver process under test, such as main."""


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
    """A process of the driver was started."""

    event: ClassVar[str] = "process-started"
    emitters: ClassVar[tuple[str, ...]] = (CHECK,)

    process: str
    pid: int
    command: tuple[str, ...]
    """The command line."""


@dataclass(frozen=True, slots=True)
class SignalSent:
    """A signal was sent to a process of the driver."""

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
    """Exit code of the process; a negative code is the signal that ended the process."""
    children: int
    """Number of its child processes that still ran."""
    output: tuple[str, ...]
    """The first and the last lines of its output."""


@dataclass(frozen=True, slots=True)
class ChildrenEnded:
    """A process of the driver ended after a SIGTERM, and now none of its child processes runs."""

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
    """Time since the start of the process."""


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
    """Resource of the device plugin."""


@dataclass(frozen=True, slots=True)
class KubeletSwitched:
    """The kubelet of a device plugin started or stopped. At its start it removes the sockets of all device plugins."""

    event: ClassVar[str] = "kubelet-switched"
    emitters: ClassVar[tuple[str, ...]] = (CHECK,)

    process: str
    running: bool
    """Whether the kubelet now serves."""


@dataclass(frozen=True, slots=True)
class SlicesListed:
    """All ResourceSlices of the API server, as v1 objects."""

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
    """A ResourceClaim was created and allocated."""

    event: ClassVar[str] = "claim-allocated"
    emitters: ClassVar[tuple[str, ...]] = (CHECK,)

    claim_uid: str
    name: str
    namespace: str
    results: tuple[dict[str, Any], ...]
    """`status.allocation.devices.results` of the claim."""


@dataclass(frozen=True, slots=True)
class CdiSpec:
    """A file in the CDI directory."""

    file: str
    problem: str
    """Why it is invalid; empty for a valid CDI spec."""
    devices: tuple[str, ...]
    """The fully qualified names of its devices, such as vendor.com/gpu=gpu-0."""


@dataclass(frozen=True, slots=True)
class CdiSpecsRead:
    """The files of the CDI directory were read."""

    event: ClassVar[str] = "cdi-specs-read"
    emitters: ClassVar[tuple[str, ...]] = (CHECK,)

    specs: tuple[CdiSpec, ...]


@dataclass(frozen=True, slots=True)
class PodRequested:
    """A Pod that uses the driver or device plugin was created, or its deletion was requested."""

    event: ClassVar[str] = "pod-requested"
    emitters: ClassVar[tuple[str, ...]] = (CHECK,)

    change: Literal["created", "deleted"]
    """`created`, or `deleted` for a request of the deletion."""
    pod: str
    uid: str
    claims: tuple[str, ...]
    """UIDs of its claims; empty for a device plugin."""
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
    """The API server holds back the driver's read of a claim, so that Prepare takes longer."""

    event: ClassVar[str] = "claim-read-held"
    emitters: ClassVar[tuple[str, ...]] = (CHECK,)

    claim_uid: str
    held: bool
    """true: the API server delays its answer to the read. false: it has answered."""
