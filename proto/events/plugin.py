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


@dataclass(frozen=True, slots=True)
class ReportSummary:
    """A driver sent a report, a device plugin sent its list, or the kubelet received a report.

    One event `change` or `unlisted` follows for each changed device.
    """

    event: ClassVar[str] = "report"
    emitters: ClassVar[tuple[str, ...]] = (DRIVER, KUBELET)

    driver: str
    devices: int
    """Number of devices in the report."""
    changed: int
    """Number of devices whose health or message changed."""
    stream: str = ""
    """Name of the stream on the driver side; empty on the kubelet side."""
    complete: bool | None = None
    """Whether the report listed all devices of the driver. null on the kubelet side: reports have no such field."""


@dataclass(frozen=True, slots=True)
class DeviceChanged:
    """The health or message of a device changed.

    On the driver side, the event has the reported values. On the kubelet side, it has the values that a Pod status
    shows now.
    """

    event: ClassVar[str] = "change"
    emitters: ClassVar[tuple[str, ...]] = (DRIVER, KUBELET)

    driver: str
    device: str
    """POOL/NAME of a device of a driver, or id of a device of a device plugin."""
    health: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class DeviceUnlisted:
    """A device plugin no longer lists a device."""

    event: ClassVar[str] = "unlisted"
    emitters: ClassVar[tuple[str, ...]] = (DRIVER,)

    driver: str
    device: str
    """id of the device."""
