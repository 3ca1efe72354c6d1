"""What reports change, in short: for logs, metrics and live views, which have no use for thousands of devices."""

from dataclasses import dataclass
from typing import ClassVar

from drahealth.proto.events.plugin import DRIVER, KUBELET


@dataclass(frozen=True, slots=True)
class ReportSummary:
    """A driver sent a report, or the kubelet received one. A `change` or `unlisted` event follows for each change."""

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
    """Whether the report listed all devices of the driver; null on the kubelet side, which cannot know this."""


@dataclass(frozen=True, slots=True)
class DeviceChanged:
    """The health or message of a device changed.

    On the driver side it has the reported values, on the kubelet side the values that a Pod status shows now.
    """

    event: ClassVar[str] = "change"
    emitters: ClassVar[tuple[str, ...]] = (DRIVER, KUBELET)

    driver: str
    device: str
    health: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class DeviceUnlisted:
    """A device plugin no longer lists a device."""

    event: ClassVar[str] = "unlisted"
    emitters: ClassVar[tuple[str, ...]] = (DRIVER,)

    driver: str
    device: str
