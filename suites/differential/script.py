"""A script: drivers, device plugins, claims, pods, and steps. Plain data with a JSON form.

Drivers, plugins, claims and pods are named by their index in the script's lists, so a script is the same in all plays.
Each step is complete before the next one begins (`player`).
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, with_config

from drahealth.fakes.control.driver import Returned
from drahealth.proto.health_apis import RELEASED

_CLOSED = ConfigDict(extra="forbid", ser_json_inf_nan="constants")
Int32 = Annotated[int, Field(ge=-(2**31), lt=2**31)]
Int64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Device:
    """A published device. `returned` are the devices that the driver returns for it; None: the device itself."""

    name: str
    returned: tuple[Returned, ...] | None = None


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Driver:
    """A driver. One instance runs at the start. `greets`: it reports all devices on every new stream."""

    devices: tuple[Device, ...]
    pool: str = "pool"
    advertised: tuple[str, ...] = RELEASED
    served: tuple[str, ...] | None = None
    cdi_ids: bool = True
    greets: bool = True
    timeout: Annotated[int, Field(ge=0, lt=2**31)] = 0


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Plugin:
    """A device plugin. One instance runs at the start, and lists all devices as Healthy.

    `directory`: it has a socket in the registration directory; otherwise it calls the kubelet.
    """

    devices: tuple[str, ...]
    directory: bool = False


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Request:
    """A request of a claim, for a number of devices of a driver."""

    name: str
    driver: int
    count: Annotated[int, Field(ge=1, le=32)] = 1


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Claim:
    """A ResourceClaim that pods may share."""

    requests: tuple[Request, ...]


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Use:
    """The part of a claim that a container uses: the whole claim, or one request."""

    claim: int
    request: str | None = None


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Held:
    """The devices of a device plugin that a container requests."""

    plugin: int
    count: Annotated[int, Field(ge=1, le=8)] = 1


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Pod:
    """A pod, with the claims and the plugins' devices of each container. `later`: a step creates it."""

    containers: tuple[tuple[Use | Held, ...], ...]
    later: bool = False


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Reading:
    """A reading of a device on the wire. `health` is the number of the enum value, known or unknown.

    `count` above 1 stands for that many devices, with `-1`, `-2`, ... appended to the names of all but the first.
    `identified` False omits the device identifier. `timeout` and `updated` are in seconds.
    """

    pool: str
    device: str
    health: Int32
    message: str = ""
    timeout: Int64 = 0
    updated: Int64 = 0
    count: Annotated[int, Field(ge=1, le=20000)] = 1
    identified: bool = True


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Report:
    """One message on the instance's stream. `pause` is the time in seconds between moment `pushed` and the sync."""

    driver: int
    says: tuple[Reading, ...]
    instance: Literal[0, 1] = 0
    pause: Annotated[float, Field(ge=0, le=60)] = 0.0
    step: Literal["report"] = "report"


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Garbage:
    """Bytes on the instance's stream that are not a message, in hexadecimal."""

    driver: int
    payload: Annotated[str, Field(pattern="^([0-9a-f]{2})*$")]
    instance: Literal[0, 1] = 0
    step: Literal["garbage"] = "garbage"


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class EndStream:
    """The end of the instance's stream, with this gRPC status code."""

    driver: int
    code: str
    instance: Literal[0, 1] = 0
    step: Literal["end-stream"] = "end-stream"


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Start:
    """The start and registration of a stopped instance, or of a second one."""

    driver: int
    instance: Literal[0, 1] = 0
    step: Literal["start"] = "start"


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Stop:
    """The deregistration and end of an instance."""

    driver: int
    instance: Literal[0, 1] = 0
    step: Literal["stop"] = "stop"


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Listed:
    """A device in a device plugin's list, with its health text."""

    device: str
    health: str = "Healthy"


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class ListDevices:
    """One list of a device plugin. It sends the devices in the order of `Plugin.devices`."""

    plugin: int
    devices: tuple[Listed, ...]
    instance: Literal[0, 1] = 0
    step: Literal["list"] = "list"


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class EndList:
    """The end of a device plugin's list, without an error. The plugin runs on."""

    plugin: int
    instance: Literal[0, 1] = 0
    step: Literal["end-list"] = "end-list"


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class StartPlugin:
    """The start and registration of a stopped instance of a device plugin, or of a second one."""

    plugin: int
    instance: Literal[0, 1] = 0
    step: Literal["start-plugin"] = "start-plugin"


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class StopPlugin:
    """The end of an instance of a device plugin."""

    plugin: int
    instance: Literal[0, 1] = 0
    step: Literal["stop-plugin"] = "stop-plugin"


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Silence:
    """A pause in seconds. `looks` False skips the sync and the snapshot, so changes show only at the next sync."""

    seconds: Annotated[float, Field(ge=0, le=120)]
    looks: bool = True
    step: Literal["silence"] = "silence"


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class StartPod:
    """The creation of a pod with `later`."""

    pod: int
    step: Literal["start-pod"] = "start-pod"


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class DeletePod:
    """The deletion of a pod."""

    pod: int
    step: Literal["delete-pod"] = "delete-pod"


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class RestartKubelet:
    """A restart of the kubelet, for all plays on it. The kubelet is killed."""

    step: Literal["restart-kubelet"] = "restart-kubelet"


DriverStep = Report | Garbage | EndStream | Start | Stop
"""The steps of drivers."""

PluginStep = ListDevices | EndList | StartPlugin | StopPlugin
"""The steps of device plugins."""

PodStep = StartPod | DeletePod
"""The steps of Pods."""

Step = Annotated[
    DriverStep | PluginStep | PodStep | Silence | RestartKubelet,
    Field(discriminator="step"),
]


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Script:
    """A script."""

    drivers: tuple[Driver, ...]
    claims: tuple[Claim, ...]
    pods: tuple[Pod, ...]
    steps: tuple[Step, ...] = ()
    plugins: tuple[Plugin, ...] = ()

    @property
    def restarts(self) -> int:
        """The number of restarts of the kubelet."""
        return sum(isinstance(step, RestartKubelet) for step in self.steps)
