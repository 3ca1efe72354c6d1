"""Summaries of reports, for logs, metrics and live views. They do not list thousands of devices."""

from dataclasses import dataclass
from typing import ClassVar

from drahealth.proto.events.plugin import DRIVER, KUBELET


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
