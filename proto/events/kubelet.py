"""What a kubelet receives from its fake or real plugins, and what it does. The manager emits these events.

`driver` is the name of the driver. For a device plugin, it is the name of the extended resource. Requests and answers
are plain data: the fields of the protobuf message by name. The key `unknown` has fields that the message type does not
have.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from drahealth.proto.events.plugin import KUBELET
from drahealth.proto.values import DeviceHealth, PluginDevice

Plain = dict[str, Any]
"""A protobuf message as plain data (`plain_messages.plain`)."""


@dataclass(frozen=True, slots=True)
class PluginRegistered:
    """The kubelet registered an instance of a plugin."""

    event: ClassVar[str] = "plugin-registered"
    emitters: ClassVar[tuple[str, ...]] = (KUBELET,)

    driver: str
    endpoint: str
    health_api: str | None
    """Health API that the plugin advertises and the kubelet supports; null if there is none."""


@dataclass(frozen=True, slots=True)
class PluginDeregistered:
    """The kubelet deregistered an instance of a plugin."""

    event: ClassVar[str] = "plugin-deregistered"
    emitters: ClassVar[tuple[str, ...]] = (KUBELET,)

    driver: str
    endpoint: str


@dataclass(frozen=True, slots=True)
class RegistrationFailed:
    """A registration failed. The kubelet tries again."""

    event: ClassVar[str] = "registration-failed"
    emitters: ClassVar[tuple[str, ...]] = (KUBELET,)

    endpoint: str
    """Path of the registration socket, or of the directory in which no socket appeared."""
    problem: str


@dataclass(frozen=True, slots=True)
class GrpcCall:
    """A unary gRPC call between the kubelet and a plugin ended, such as GetInfo, NodePrepareResources or Allocate."""

    event: ClassVar[str] = "grpc-call"
    emitters: ClassVar[tuple[str, ...]] = (KUBELET,)

    driver: str
    endpoint: str
    method: str
    """Service and method, such as pluginregistration.Registration/GetInfo."""
    request: Plain
    response: Plain | None
    """Fields of the response; null if the call failed."""
    seconds: float
    """Duration of the call."""
    code: str = "OK"
    """gRPC code; empty if the answer could not be decoded."""
    details: str = ""
    """Text of the error; empty if there was no error."""
    caller: Literal["kubelet", "plugin"] = "kubelet"
    """`plugin` for the call Register of a device plugin, `kubelet` for all other calls."""


@dataclass(frozen=True, slots=True)
class Undecoded:
    """One device of a message that has unknown or invalid fields, with all received fields."""

    device: int
    """Index in `devices` of the event; -1 for fields of the message itself."""
    fields: Plain


@dataclass(frozen=True, slots=True)
class ReportReceived:
    """The kubelet received one message of a health stream."""

    event: ClassVar[str] = "report-received"
    emitters: ClassVar[tuple[str, ...]] = (KUBELET,)

    driver: str
    endpoint: str
    stream: str
    size: int
    devices: tuple[DeviceHealth, ...]
    undecoded: tuple[Undecoded, ...] = ()


@dataclass(frozen=True, slots=True)
class ListReceived:
    """The kubelet received one list of a device plugin's ListAndWatch stream."""

    event: ClassVar[str] = "list-received"
    emitters: ClassVar[tuple[str, ...]] = (KUBELET,)

    driver: str
    endpoint: str
    stream: str
    size: int
    devices: tuple[PluginDevice, ...]
    """Devices in the order of the message, each with `id` and `health`."""
    undecoded: tuple[Undecoded, ...] = ()


@dataclass(frozen=True, slots=True)
class HealthRestored:
    """The kubelet started, and read the last reported health of a driver's devices from its checkpoint."""

    event: ClassVar[str] = "health-restored"
    emitters: ClassVar[tuple[str, ...]] = (KUBELET,)

    driver: str
    devices: tuple[DeviceHealth, ...]
    """Each with `pool`, `device`, `health`, `message` and `timeout`: whole seconds that remain until the timeout."""


@dataclass(frozen=True, slots=True)
class MalformedReceived:
    """The kubelet received an invalid message on a stream. Then the stream ends."""

    event: ClassVar[str] = "malformed-received"
    emitters: ClassVar[tuple[str, ...]] = (KUBELET,)

    driver: str
    endpoint: str
    stream: str
    size: int
    start: str
    """The first 256 bytes of the message, in hexadecimal."""


@dataclass(frozen=True, slots=True)
class PodsNotified:
    """The health of a device changed. The kubelet must update the status of the Pods that hold the device."""

    event: ClassVar[str] = "notified"
    emitters: ClassVar[tuple[str, ...]] = (KUBELET,)

    pods: tuple[str, ...]
    """UIDs of the Pods, sorted."""


@dataclass(frozen=True, slots=True)
class CheckpointWritten:
    """The kubelet wrote a checkpoint, or the write failed. Live output has only failed writes."""

    event: ClassVar[str] = "checkpoint-written"
    emitters: ClassVar[tuple[str, ...]] = (KUBELET,)

    file: str
    size: int
    """Size of the file in bytes."""
    seconds: float
    """Duration of the write, including the serialization."""
    ok: bool
