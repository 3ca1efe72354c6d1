"""What a DRA driver or a device plugin does. For a device plugin, `driver` is the name of its extended resource."""

from dataclasses import dataclass
from typing import ClassVar

from drahealth.proto.values import DeviceHealth, PluginDevice

DRIVER = "fake driver"
KUBELET = "manager"

CANCELLED = "cancelled by the kubelet, or the connection ended"
"""`StreamClosed.why` on the driver side, if the driver did not end the stream itself."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A kubelet reported to an instance whether its registration succeeded (NotifyRegistrationStatus)."""

    event: ClassVar[str] = "registered"
    emitters: ClassVar[tuple[str, ...]] = (DRIVER,)

    driver: str
    instance: str
    ok: bool
    error: str = ""


@dataclass(frozen=True, slots=True)
class RegistrationCallFailed:
    """An instance answered a call of the registration service with an error, because of the command
    `fail_registration` (docs/reference/commands.md).
    """

    event: ClassVar[str] = "registration-call-failed"
    emitters: ClassVar[tuple[str, ...]] = (DRIVER,)

    driver: str
    instance: str
    call: str
    """GetInfo or NotifyRegistrationStatus."""
    error: str


@dataclass(frozen=True, slots=True)
class Unregistered:
    """An instance removed its registration socket, or ended."""

    event: ClassVar[str] = "unregistered"
    emitters: ClassVar[tuple[str, ...]] = (DRIVER,)

    driver: str
    instance: str


@dataclass(frozen=True, slots=True)
class StreamOpened:
    """A kubelet opened a health stream, or the ListAndWatch stream of a device plugin."""

    event: ClassVar[str] = "stream-opened"
    emitters: ClassVar[tuple[str, ...]] = (DRIVER, KUBELET)

    driver: str
    instance: str
    """ID of the instance in a rolling update; otherwise empty. Always empty on the kubelet side."""
    stream: str
    health_api: str
    endpoint: str = ""
    """Path of the plugin's socket; empty on the driver side."""


@dataclass(frozen=True, slots=True)
class StreamClosed:
    """A health stream or ListAndWatch stream ended."""

    event: ClassVar[str] = "stream-closed"
    emitters: ClassVar[tuple[str, ...]] = (DRIVER, KUBELET)

    driver: str
    instance: str
    """ID of the instance in a rolling update; otherwise empty. Always empty on the kubelet side."""
    stream: str
    why: str
    endpoint: str = ""
    """Path of the plugin's socket; empty on the driver side."""
    code: str = ""
    """gRPC code that the kubelet side received, such as OK or UNAVAILABLE; empty on the driver side."""


@dataclass(frozen=True, slots=True)
class ReportSent:
    """The driver sent one report. Live output has `report` instead."""

    event: ClassVar[str] = "report-sent"
    emitters: ClassVar[tuple[str, ...]] = (DRIVER,)

    driver: str
    instance: str
    stream: str
    devices: tuple[DeviceHealth, ...]
    complete: bool = True


@dataclass(frozen=True, slots=True)
class DevicesListed:
    """A device plugin sent its list on a ListAndWatch stream. Live output has `report` instead."""

    event: ClassVar[str] = "devices-listed"
    emitters: ClassVar[tuple[str, ...]] = (DRIVER,)

    driver: str
    instance: str
    stream: str
    devices: tuple[PluginDevice, ...]
    """Devices in the order of the message, each with `id` and `health`."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """The driver prepared a claim for the kubelet."""

    event: ClassVar[str] = "prepared"
    emitters: ClassVar[tuple[str, ...]] = (DRIVER,)

    driver: str
    instance: str
    claim_uid: str
    devices: tuple[str, ...]
    """Names of the devices that the driver prepared."""


@dataclass(frozen=True, slots=True)
class Unprepared:
    """The driver unprepared a claim."""

    event: ClassVar[str] = "unprepared"
    emitters: ClassVar[tuple[str, ...]] = (DRIVER,)

    driver: str
    instance: str
    claim_uid: str
