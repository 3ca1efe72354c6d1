"""What the manager tells of itself while it works, for metrics, logs and whoever looks on: plain data, at once.

It changes nothing, and who is told must neither block nor raise. The default is nobody.
"""

from dataclasses import dataclass
from typing import Protocol

from drahealth.manager.cache import Reading
from drahealth.proto.values import DeviceId


@dataclass(frozen=True, slots=True)
class PluginRegistered:
    """An instance of a driver was taken; `health_api` is the one that it will be asked by, None if there is none."""

    driver: str
    endpoint: str
    health_api: str | None


@dataclass(frozen=True, slots=True)
class PluginDeregistered:
    """That instance is gone."""

    driver: str
    endpoint: str


@dataclass(frozen=True, slots=True)
class StreamOpened:
    """A health stream was opened; each is told of as ended, too."""

    driver: str
    endpoint: str
    health_api: str


@dataclass(frozen=True, slots=True)
class StreamEnded:
    """It ended, in whatever way; `why` in words."""

    driver: str
    endpoint: str
    why: str


@dataclass(frozen=True, slots=True)
class ReportTaken:
    """A report of so many devices was taken; `changed` is how the devices that it changed are now."""

    driver: str
    devices: int
    changed: tuple[tuple[DeviceId, Reading], ...]


@dataclass(frozen=True, slots=True)
class PodsNotified:
    """The pods of these uids were told to sync, since the health of a device that they hold has changed."""

    pods: frozenset[str]


@dataclass(frozen=True, slots=True)
class CheckpointWritten:
    """A checkpoint was written, or could not be (`ok`); `size` in bytes, `seconds` with putting it into words."""

    file: str
    size: int
    seconds: float
    ok: bool


Event = (
    PluginRegistered | PluginDeregistered | StreamOpened | StreamEnded | ReportTaken | PodsNotified | CheckpointWritten
)


class Observer(Protocol):
    """Who looks on."""

    def __call__(self, event: Event, /) -> None:
        """It has just happened."""


def nobody(event: Event, /) -> None:
    """The observer that does not care."""
