"""A script: drivers, claims and pods, and what happens to them step by step. Plain data with a JSON form.

Drivers, claims and pods are named by their place in the script's lists, so that a script reads the same wherever and
however often it is played. Every step is settled before the next begins (`player`).
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, with_config

from drahealth.fakes.control.driver import DEFAULT_HEALTH_APIS, Returned

_CLOSED = ConfigDict(extra="forbid", ser_json_inf_nan="constants")
Int32 = Annotated[int, Field(ge=-(2**31), lt=2**31)]
Int64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Device:
    """A device that a driver publishes, and what the driver returns when it prepares it; None: just that device."""

    name: str
    returned: tuple[Returned, ...] | None = None


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Driver:
    """A driver of which one instance runs at the start. `greets`: it reports all devices on every new stream."""

    devices: tuple[Device, ...]
    pool: str = "pool"
    advertised: tuple[str, ...] = DEFAULT_HEALTH_APIS
    served: tuple[str, ...] | None = None
    cdi_ids: bool = True
    greets: bool = True
    timeout: Annotated[int, Field(ge=0, lt=2**31)] = 0


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Request:
    """A request of a claim: so many devices of a driver."""

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
    """How a container uses a claim: all of it, or one request."""

    claim: int
    request: str | None = None


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Pod:
    """A pod by its containers' uses. `later`: it is not there at the start."""

    containers: tuple[tuple[Use, ...], ...]
    later: bool = False


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Said:
    """What a report says of a device, as it goes onto the wire: `health` is the enum's number, known or not.

    `count` above 1 stands for so many devices, with `-1`, `-2`, ... added to the names of all but the first.
    `identified` False leaves the identifier out.
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
    """One message on the instance's stream. `pause` seconds pass between what it pushes and the sync that follows."""

    driver: int
    says: tuple[Said, ...]
    instance: Literal[0, 1] = 0
    pause: Annotated[float, Field(ge=0, le=60)] = 0.0
    step: Literal["report"] = "report"


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Garbage:
    """Bytes on the instance's stream, hexadecimal, that are no message."""

    driver: int
    payload: Annotated[str, Field(pattern="^([0-9a-f]{2})*$")]
    instance: Literal[0, 1] = 0
    step: Literal["garbage"] = "garbage"


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class EndStream:
    """The instance ends its stream with this gRPC status code."""

    driver: int
    code: str
    instance: Literal[0, 1] = 0
    step: Literal["end-stream"] = "end-stream"


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Start:
    """An instance starts and registers: one that was stopped, or a second one beside the first."""

    driver: int
    instance: Literal[0, 1] = 0
    step: Literal["start"] = "start"


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Stop:
    """An instance unregisters and ends."""

    driver: int
    instance: Literal[0, 1] = 0
    step: Literal["stop"] = "stop"


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Silence:
    """Nothing happens for so many seconds. `looks` False: nor are pods synced and looked at, so that what has changed
    in the meantime shows only when something else has them synced."""

    seconds: Annotated[float, Field(ge=0, le=120)]
    looks: bool = True
    step: Literal["silence"] = "silence"


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class StartPod:
    """A pod that was to come later comes now."""

    pod: int
    step: Literal["start-pod"] = "start-pod"


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class DeletePod:
    """A pod is deleted, and is gone."""

    pod: int
    step: Literal["delete-pod"] = "delete-pod"


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class RestartKubelet:
    """The kubelet is killed and started again, for all who play on it."""

    step: Literal["restart-kubelet"] = "restart-kubelet"


Step = Annotated[
    Report | Garbage | EndStream | Start | Stop | Silence | StartPod | DeletePod | RestartKubelet,
    Field(discriminator="step"),
]


@with_config(_CLOSED)
@dataclass(frozen=True, slots=True)
class Script:
    """All there is to play."""

    drivers: tuple[Driver, ...]
    claims: tuple[Claim, ...]
    pods: tuple[Pod, ...]
    steps: tuple[Step, ...] = ()

    @property
    def restarts(self) -> int:
        """How often the kubelet is restarted."""
        return sum(isinstance(step, RestartKubelet) for step in self.steps)
